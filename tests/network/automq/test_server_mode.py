"""Handlers with a queue each: none waits for another's turn, and none ends with another's queue."""

from broker.network.automq.server_mode import IndependentHandlers


async def test_every_handler_leads_at_once_and_again_after_a_wait() -> None:
    handlers = IndependentHandlers()
    assert handlers.resize(3) == [0, 1, 2]
    for number in (0, 1, 2, 1):
        assert await handlers.take_the_lead(number)
        handlers.promote_follower()


async def test_the_end_of_one_queue_leaves_the_others_to_their_handlers() -> None:
    """A handler that waited for a slow request continues with its own queue."""
    handlers = IndependentHandlers()
    handlers.resize(2)
    handlers.dismiss()
    assert await handlers.take_the_lead(1)
