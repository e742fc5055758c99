"""A configuration becomes settings, or one error that lists all of its problems."""

import difflib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from nri_coloc.core.settings import (
    ClassRule,
    ClassTuning,
    DiskTuning,
    PressureTuning,
    ReclaimTuning,
    RungTuning,
    ScheduleTuning,
    Settings,
    Tuning,
    WindowTuning,
)
from nri_coloc.core.workload import QoSClass
from nri_coloc.errors import SettingsError
from nri_coloc.service.configuration import document, loading

EXAMPLE = Path(__file__).parents[3] / "deploy" / "config.example.yaml"


def refused(text: str) -> str:
    with pytest.raises(SettingsError) as caught:
        loading.load(text, "c.yaml")
    return str(caught.value)


# --- values that are read ------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "{}", "apiVersion: coloc.nri.io/v1\n"])
def test_an_empty_file_is_valid_and_means_the_defaults(text):
    assert loading.load(text, "c.yaml") == Settings()


def test_the_example_holds_the_defaults():
    assert loading.read(EXAMPLE) == Settings()


def test_the_example_holds_every_key():
    def keys(data: dict[str, Any], prefix: str = "") -> Iterator[str]:
        for key, value in data.items():
            yield prefix + key
            if isinstance(value, dict):
                yield from keys(value, f"{prefix}{key}.")

    found = document.read(EXAMPLE.read_text()).data
    effective = loading.parse("", "defaults").model_dump(by_alias=True)
    assert sorted(keys(found)) == sorted(keys(effective))


EVERY_KEY = """
apiVersion: coloc.nri.io/v1
node: {reservedCPUs: "0-1", reservedMemory: 2Gi, kubeletCPUManager: preserve-kubelet}
classes:
  rules:
  - {annotation: "caster.io/resource-type=colocation", class: reclaimed}
  - {label: "a=b=c", namespace: "x-*", class: dedicated}
  shared: {cpuShares: 512, ioWeight: 200, oomScoreAdj: 7, memoryHigh: 90%, memoryLow: 1Gi, memoryMin: 5,
           cpuBurst: 40, allowNamespaces: [a, "b-*"]}
reclaim: {enabled: false, sharing: partition, cpuWatermark: 120, stall: 20, memoryWatermark: 80}
pressure: {cpu: {action: off, up: 9}, io: {action: throttle, up: 3, down: 4, hold: 60},
           disk: 2, degrade: true}
runtime: {nriSocket: /a, criSocket: /b, pluginName: c, pluginIndex: 07, updatesPerReply: 3,
          handlers: {kata: pod}}
telemetry: {http: off, auditRing: 5, logLevel: debug}
schedule: {timeZone: Europe/Berlin, outside: 20, grace: 1h30m,
           windows: [{days: "fri-mon", from: 22:00, to: 06:30, lend: 70}]}
mode: observe
strict: true
"""


EVERY_TUNING = Tuning(
    reserved=0b11,
    reserved_memory=2 << 30,
    preserve_kubelet=True,
    classes={
        **Tuning().classes,
        QoSClass.SHARED: ClassTuning(
            cpu_shares=512,
            io_weight=200,
            oom_score_adj=7,
            memory_high="90%",
            memory_low="1Gi",
            memory_min="5",
            allow_namespaces=("a", "b-*"),
            cpu_burst=40,
        ),
    },
    rules=(
        ClassRule(qos=QoSClass.RECLAIMED, annotation=("caster.io/resource-type", "colocation")),
        ClassRule(qos=QoSClass.DEDICATED, label=("a", "b=c"), namespace="x-*"),
    ),
    reclaim=ReclaimTuning(
        enabled=False,
        partition=True,
        watermark=1.2,
        stall=0.2,
        memory_watermark=0.8,
        memory_reserve=2 << 30,
    ),
    pressure=PressureTuning(
        cpu=RungTuning(judges=False, up=9),
        io=RungTuning(throttles=True, up=3, down=4, hold_s=60.0),
        disk=DiskTuning(closes=True, above=0.02),
        degrade=True,
    ),
    handlers={"kata": "pod"},
    updates_per_reply=3,
    observe=True,
    strict=True,
)
EVERY_SCHEDULE = ScheduleTuning(
    ZoneInfo("Europe/Berlin"),
    (WindowTuning(frozenset({4, 5, 6, 0}), 22 * 60, 6 * 60 + 30, 70),),
    outside=20,
    grace_s=5400,
)


def test_every_key_reaches_the_settings():
    assert loading.load(EVERY_KEY, "c.yaml") == Settings(
        EVERY_TUNING,
        nri_socket="/a",
        cri_socket="/b",
        plugin_name="c",
        plugin_index="07",
        http="off",
        audit_ring=5,
        log_level="debug",
        schedule=EVERY_SCHEDULE,
    )


def test_the_distance_of_the_disks_lines_is_percent():
    found = loading.load("pressure: {disk: -3}", "c.yaml").tuning.pressure.disk
    assert found == DiskTuning(closes=True, above=-0.03)


@pytest.mark.parametrize("value", ["51", "-5", "true", "[1]", "1.5", '"on"'])
def test_a_bad_distance_is_one_sentence(value):
    with pytest.raises(SettingsError) as error:
        loading.load(f"pressure: {{disk: {value}}}", "c.yaml")
    assert error.value.sentence.startswith("c.yaml:1: pressure.disk: ")
    assert "neither off nor such a number; allowed: off, or percent above" in error.value.sentence
    assert "\n" not in error.value.sentence


def test_reserved_cpus_may_be_a_count():
    found = loading.load("node: {reservedCPUs: 2}", "c.yaml").tuning
    assert (found.reserved, found.reserved_count) == (0, 2)


def test_a_class_keeps_its_other_defaults():
    found = loading.load("classes: {reclaimed: {ioWeight: 50}}", "c.yaml").tuning
    assert found.classes[QoSClass.RECLAIMED] == ClassTuning(2, 50, 1000)


# --- values that are refused ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mode: fast", "c.yaml:1: mode: 'fast' does not fit; allowed: enforce or observe"),
        ("strict: 7", "c.yaml:1: strict: 7 does not fit; allowed: true or false"),
        ("mode: true", "c.yaml:1: mode: true does not fit; allowed: enforce or observe"),
        ("mode: [a]", "c.yaml:1: mode: a list does not fit; allowed: enforce or observe"),
        (
            'node: {"\\e[2J\\n": 1}',
            (
                r"c.yaml:1: node.\x1b[2J\n: unknown key; "
                "allowed: reservedCPUs, reservedMemory, kubeletCPUManager"
            ),
        ),
        ("mode: {a: b}", "c.yaml:1: mode: a section does not fit; allowed: enforce or observe"),
        ("\n\nmode:", "c.yaml:3: mode: null does not fit; allowed: enforce or observe"),
        ("apiVersion: v2", "c.yaml:1: apiVersion: 'v2' does not fit; allowed: coloc.nri.io/v1"),
        (
            "telemetry:\n  loglevel: info",
            (
                "c.yaml:2: telemetry.loglevel: unknown key, did you mean logLevel?; "
                "allowed: http, auditRing, logLevel"
            ),
        ),
        (
            "pools:\n  gold: 1",
            (
                "c.yaml:2: pools.gold: 1 does not fit; "
                "allowed: members, kind, minCPUs, maxCPUs, groupBy, priority, band"
            ),
        ),
        (
            "telemetry: 5",
            "c.yaml:1: telemetry: 5 does not fit; allowed: http, auditRing, logLevel",
        ),
        (
            "classes:\n  rules:\n  - namespace: x",
            "c.yaml:3: classes.rules[0].class: missing; allowed: one of dedicated, shared, reclaimed, system",
        ),
        (
            "classes: {rules: [{namespace: x, class: shared, tier: 1}]}",
            "c.yaml:1: classes.rules[0].tier: unknown key; allowed: annotation, label, namespace, class",
        ),
        (
            "runtime: {handlers: {kata: vm}}",
            (
                "c.yaml:1: runtime.handlers.kata: 'vm' does not fit; "
                "allowed: runtime handler to one of container, pod, ignore, such as {kata: pod}"
            ),
        ),
        (
            "classes: {dedicated: {oomScoreAdj: 5}}",
            (
                "c.yaml:1: classes.dedicated.oomScoreAdj: 5 is outside of the band of class dedicated, "
                "-998 to 0; allowed: an integer in the band of the class, or null for the kubelet's"
            ),
        ),
        (
            "pools:\n  gold:\n    minCPUs: 8\n    maxCPUs: 4\n",
            (
                "c.yaml:3: pools.gold.minCPUs: 8 is more than maxCPUs, 4; "
                "allowed: CPUs that it keeps at least; 0 for none of its own"
            ),
        ),
        (
            "pools:\n  gold: {}\n  share: {maxCPUs: 4}\n",
            (
                "c.yaml:3: pools.share: share is always there, and of it can be said only: minCPUs, priority, band; "
                "allowed: at most 32 names, of 1 to 63 letters, digits, '.', '_' and '-', none of reserved, dedicated, "
                "system, isolated; of each: members, kind, minCPUs, maxCPUs, groupBy, priority, band"
            ),
        ),
        (
            "pools:\n  gold:\n    groupBy: node\n",
            (
                "c.yaml:3: pools.gold.groupBy: 'node' does not fit; "
                "allowed: namespace, pod, label:KEY or annotation:KEY: a pool of these bounds for each"
            ),
        ),
        (
            "schedule:\n  windows:\n  - {days: mon-fri}\n  - {days: weekend}\n",
            (
                "c.yaml:4: schedule.windows[1].days: 'weekend' is no day and no range of days; "
                'allowed: days on which it opens, such as mon-fri or "sat,sun"'
            ),
        ),
        (
            "schedule:\n  windows:\n  - from: 7:00\n",
            "c.yaml:3: schedule.windows[0].from: '7:00' is no time of the day; allowed: HH:MM, from 00:00 to 23:59",
        ),
        (
            "schedule:\n  windows:\n  - from: 06:00\n    to: 06:00\n",
            (
                "c.yaml:4: schedule.windows[0].to: '06:00' leaves the window no time; "
                "write 00:00 to 24:00 for all day; allowed: HH:MM, from 00:00 to 24:00, "
                "not the same as `from`; before `from` it is on the next day"
            ),
        ),
        (
            "schedule: {windows: [{lend: 120}]}",
            (
                "c.yaml:1: schedule.windows[0].lend: 120 does not fit; "
                "allowed: percent of the headroom, 0 to 100, that is lent while the window is open"
            ),
        ),
        (
            "schedule: {grace: 10}",
            (
                "c.yaml:1: schedule.grace: '10' is no duration with units; "
                "allowed: a duration such as 10m, 1h30m, 90s or 0, at most 24h"
            ),
        ),
        (
            "schedule:\n  timeZone: Europe/Berlni\n",
            (
                "c.yaml:2: schedule.timeZone: 'Europe/Berlni' is no time zone of this machine; "
                "allowed: UTC, or a name of the tz database such as Europe/Berlin (package tzdata)"
            ),
        ),
        (
            "schedule: {window: []}",
            (
                "c.yaml:1: schedule.window: unknown key, did you mean windows?; "
                "allowed: timeZone, windows, outside, grace"
            ),
        ),
        (
            "mode: enforce\nmod",
            (
                "c.yaml:2: not YAML: while scanning a simple key, could not find expected ':'; "
                'put ": " behind the key'
            ),
        ),
        ("[" * 2000, "c.yaml: nested too deeply to be a configuration"),
        ("x" * (1 << 21), "c.yaml: too large; allowed: at most 1048576 bytes"),
    ],
)
def test_a_problem_is_told_with_its_place_and_what_is_allowed(text, said):
    assert refused(text) == said


@pytest.mark.parametrize(
    "text",
    [
        "node: {reservedCPUs: 010}",
        "node: {reservedCPUs: '010'}",
        "node: {reservedCPUs: 00}",
        "node: {reservedMemory: 010}",
        "classes: {shared: {memoryHigh: 0777}}",
    ],
)
def test_a_number_that_could_be_octal_is_refused(text):
    assert "begins with a zero, which many readers of YAML take for octal; allowed: a" in refused(text)


@pytest.mark.parametrize(
    "text",
    [
        "node: {reservedCPUs: 1.0}",
        "node: {reservedCPUs: 1e3}",
        "node: {reservedCPUs: 0x10}",
        "node: {reservedCPUs: 0o10}",
        "node: {reservedCPUs: 1_0}",
        "node: {reservedCPUs: +1}",
        "node: {reservedCPUs: 12:30}",
        "node: {reservedCPUs: yes}",
        "node: {reservedMemory: 0x10}",
        "node: {reservedMemory: 1_000}",
        "node: {reservedMemory: 12:30}",
        "node: {reservedMemory: .inf}",
        "classes: {shared: {ioWeight: 010}}",
        "classes: {shared: {ioWeight: 1e2}}",
        "classes: {rules: [{namespace: true, class: shared}]}",
        "classes: {rules: [{namespace: 12, class: shared}]}",
        "runtime: {updatesPerReply: 1.0}",
        "runtime: {pluginIndex: 010}",
        "telemetry: {auditRing: 2001-01-01}",
        "strict: yes",
        "strict: on",
        "strict: TRUE",
    ],
)
def test_what_readers_of_yaml_disagree_about_is_refused(text):
    assert "; allowed: " in refused(text)


@pytest.mark.parametrize("word", ["yes", "off", "1.0", "1e3", "12:30", "2001-01-01", "0x10", "NULL"])
def test_where_a_word_is_wanted_a_word_is_what_was_written(word):
    found = loading.load(f"classes: {{rules: [{{namespace: {word}, class: shared}}]}}", "c.yaml")
    assert found.tuning.rules[0].namespace == word


def test_a_file_without_mapping_is_told_its_form():
    assert refused("- 1").startswith("c.yaml:1: a list does not fit; allowed: apiVersion, node,")


def test_all_problems_are_reported_in_file_order():
    text = "mode: fast\nmode: slow\nstrict: 7\nother: 1\n"
    assert [line.split(": ")[:2] for line in refused(text).splitlines()] == [
        ["c.yaml:1", "mode"],
        ["c.yaml:2", "mode"],
        ["c.yaml:3", "strict"],
        ["c.yaml:4", "other"],
    ]


def test_duplicate_keys_alone_are_refused():
    assert "duplicate key" in refused("strict: true\nstrict: true")


def test_the_list_of_problems_is_bounded():
    said = refused("".join(f"k{i}: 1\n" for i in range(60))).splitlines()
    assert (len(said), said[-1]) == (51, "c.yaml: and 10 problems more")


def test_only_the_problems_that_are_told_are_put_into_words(monkeypatch):
    worded: list[str] = []

    def matches(word: str, *_: object, **__: object) -> list[str]:
        worded.append(word)
        return []

    monkeypatch.setattr(difflib, "get_close_matches", matches)
    said = refused("".join(f"k{i}: 1\n" for i in range(5000))).splitlines()
    assert (len(worded), said[-1]) == (50, "c.yaml: and 4950 problems more")


def test_of_many_problems_the_first_of_the_file_are_told():
    text = "strict: 7\n" + "".join(f"k{i}: 1\n" for i in range(60)) + "mode: enforce\nmode: enforce\n"
    lines = [line.split(": ")[0] for line in refused(text).splitlines()]
    assert lines == [f"c.yaml:{number}" for number in range(1, 51)] + ["c.yaml"]


def test_a_problem_can_be_printed_whatever_the_file_holds():
    assert r"\ud800" in refused('mode: "\\ud800"').encode().decode()


# --- reading of the file -------------------------------------------------------------------------------


def unreadable(path: str | Path) -> str:
    with pytest.raises(SettingsError) as caught:
        loading.read(path)
    return str(caught.value)


def test_a_file_is_read(tmp_path):
    (tmp_path / "c.yaml").write_text("strict: true")
    assert loading.read(tmp_path / "c.yaml").tuning.strict


def test_a_missing_file_is_told(tmp_path):
    assert unreadable(tmp_path / "no") == f"{tmp_path}/no: cannot be read: No such file or directory"


def test_a_directory_is_told(tmp_path):
    assert unreadable(tmp_path) == f"{tmp_path}: cannot be read: Is a directory"


def test_a_path_that_is_none_is_told():
    assert unreadable("a\0b") == "'a\\x00b': is not a path"


def test_an_endless_file_is_not_read_to_its_end():
    assert unreadable("/dev/zero") == "/dev/zero: too large; allowed: at most 1048576 bytes"


def test_a_binary_file_is_told_with_its_line(tmp_path):
    (tmp_path / "c").write_bytes(b"mode: enforce\n\xff\xfe")
    assert unreadable(tmp_path / "c") == f"{tmp_path}/c:2: not text in UTF-8"


def test_a_file_of_zeros_is_told(tmp_path):
    (tmp_path / "c").write_bytes(bytes(100))
    assert unreadable(tmp_path / "c") == f"{tmp_path}/c:1: not text: it holds a control character"


def test_a_half_written_file_is_told(tmp_path):
    text = EXAMPLE.read_text()
    (tmp_path / "c").write_text(text[: text.index("[kube-system]") + 5])
    assert "not YAML" in unreadable(tmp_path / "c")


# --- costs ---------------------------------------------------------------------------------------------


def test_the_annotations_are_read_without_pydantic_and_yaml():
    code = "import sys, nri_coloc.pods.annotations; print({'pydantic', 'yaml'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


@pytest.mark.parametrize(
    ("features", "slice_us", "policy"),
    [
        ("[]", 0, ""),
        ("[scheduler-idle]", 0, ""),
        ("[scheduler-hints]", 100, "SCHED_BATCH"),
        ("[scheduler-hints, scheduler-idle]", 100, "SCHED_IDLE"),
    ],
)
def test_what_tasks_are_told_is_a_matter_of_two_features(features, slice_us, policy):
    found = loading.load(f"reclaim: {{features: {features}}}", "c.yaml").tuning.reclaim.hints
    assert (found.online_slice_us, found.offline_policy) == (slice_us, policy)


def test_reclaimed_tasks_yield_unless_configured_otherwise():
    assert loading.load("", "c.yaml").tuning.reclaim.hints.offline_policy == "SCHED_IDLE"
