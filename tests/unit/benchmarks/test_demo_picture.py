"""The demo's picture has a cell for each CPU of `/v1/state`, in an SVG that a reader can open."""

from xml.etree import ElementTree as ET

from benchmarks.demo_picture import QUARTERS, Cell, Run, cells, drawn, runs

STATE = {
    "node": {"cpus": "0-3"},
    "pools": {"reclaim": {"cpus": "2-3"}},
    "containers": [
        {"namespace": "shop", "pod": "web", "class": "dedicated", "cpus": "0-1", "exclusive": True},
        {"namespace": "batch", "pod": "etl", "class": "reclaimed", "cpus": "2-3", "exclusive": False},
    ],
}


def test_a_cell_names_owner_or_loan():
    assert cells(STATE) == [Cell("shop/web"), Cell("shop/web"), Cell(lent=True), Cell(lent=True)]


def test_no_cpu_is_lent_without_reclaimed_containers():
    assert cells({**STATE, "containers": []}) == [Cell()] * 4


def test_equal_quarters_are_one_run():
    quarters = {0: [Cell()], 1: [Cell()], 5: [Cell("a/b")]}
    assert list(runs(quarters)) == [Run(0, 0, 5, Cell()), Run(0, 5, QUARTERS, Cell("a/b"))]


def test_the_picture_names_every_owner():
    tree = ET.fromstring(drawn({0: cells(STATE)}))
    assert "shop/web" in [text.text for text in tree.iter("{http://www.w3.org/2000/svg}text")]
