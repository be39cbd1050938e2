from pathlib import Path
import pytest
from tests.webui.test_longest_piece import too_long
from tests.webui.crowded import Size

@pytest.mark.timed
async def test_pieces(tmp_path: Path) -> None:
    assert await too_long(tmp_path, Size(rules=100, topics=2000, partitions=2000, clients=50, connections=20, tokens=2, subscriptions=2, acls=10), ("listTopics","listTopicGroups","listGroups","getGroup","getTopic","topic","group","browseRecords","getGroupLag")) == []
