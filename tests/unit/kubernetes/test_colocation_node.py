"""The ColocationNode of a companion's node: it is created when it is missing, and ends with its Node object."""

import pytest

from nri_coloc.kubernetes.api import ApiError
from nri_coloc.kubernetes.colocation_node import OBJECTS, ColocationNode
from tests.unit.kubernetes.fake_api import Reply, serving

SPEC = {"summary": {"lending": "on"}}


def calls(folder, uid="uid-a", *, creates=True):
    """Write to a missing object of a node with this UID; return the requests."""
    with serving(folder, lambda asked: Reply(404 if asked.method == "PATCH" else 201)) as server:
        ColocationNode(server.connect(), "a", lambda: uid).write(SPEC, creates=creates)
    return server.asked


def test_a_created_object_belongs_to_its_node(tmp_path):
    patch, post = calls(tmp_path)
    owner = {"apiVersion": "v1", "kind": "Node", "name": "a", "uid": "uid-a"}
    assert (patch.path, patch.body) == (f"{OBJECTS}/a", {"spec": SPEC})
    assert post.body["metadata"] == {"name": "a", "ownerReferences": [owner]}
    assert post.body["spec"] == SPEC


def test_a_missing_object_can_stay_missing(tmp_path):
    assert [asked.method for asked in calls(tmp_path, creates=False)] == ["PATCH"]


def test_no_object_is_created_without_its_node(tmp_path):
    with pytest.raises(ApiError, match="there is no Node a"):
        calls(tmp_path, uid="")
