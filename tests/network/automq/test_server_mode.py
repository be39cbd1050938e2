"""Handlers with a queue each: none waits for another's turn, and none ends with another's queue."""

from broker.network.automq.server_mode import IndependentHandlers


async def test_every_handler_leads_at_once_and_again_after_a_wait() -> None:
    crew = IndependentHandlers()
    assert crew.resize(3) == [0, 1, 2]
    for number in (0, 1, 2, 1):
        assert await crew.take_the_lead(number)
        crew.promote_follower()


async def test_the_end_of_one_queue_leaves_the_others_to_their_handlers() -> None:
    """A handler that waited for a slow request continues with its own queue."""
    crew = IndependentHandlers()
    crew.resize(2)
    crew.dismiss()
    assert await crew.take_the_lead(1)
