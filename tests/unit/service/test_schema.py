"""Every key of the file has a default and a sentence on its values, and the keys are few enough."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from nri_coloc.service.configuration import document, schema
from nri_coloc.service.configuration.sections import Selector

DOCUMENTED = Path(__file__).parents[3] / "docs" / "configuration.md"


def sections(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """Yield every model of the file."""
    yield model
    for field in model.model_fields.values():
        for part in (field.annotation, *get_args(field.annotation)):
            if isinstance(part, type) and issubclass(part, BaseModel):
                yield from sections(part)


def leaves() -> dict[tuple[str, str], FieldInfo]:
    """Return (alias, field) of every key that is not a section."""
    return {
        (model.__name__, field.alias or name): field
        for model in sections(schema.File)
        for name, field in model.model_fields.items()
        if not (isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel))
    }


def test_every_key_says_what_is_allowed():
    assert [name for name, field in leaves().items() if not field.description] == []


def test_every_key_but_the_class_of_a_rule_has_a_default():
    assert [name for name, field in leaves().items() if field.is_required()] == [("Rule", "class")]


def test_an_operator_touches_at_most_sixty_keys():
    # a key that every class has is one key to learn; apiVersion has one value, which no operator changes; pools, rules
    # and windows are sections: their parts have the keys that count; the value of `resources` is two names, cpu and
    # memory, and counts once
    no_keys = {"apiVersion", "pools", "rules", "windows", "memory"}
    assert len({alias for _, alias in leaves()} - no_keys) <= 60


def test_every_key_is_documented():
    text = DOCUMENTED.read_text()
    assert [
        alias for _, alias in leaves() if f"| `{alias}` |" not in text and f"`{alias}` is" not in text
    ] == []


def test_the_sections_are_those_of_the_contract():
    names = [field.alias or name for name, field in schema.File.model_fields.items()]
    assert names == [
        "apiVersion",
        "node",
        "classes",
        "pools",
        "reclaim",
        "pressure",
        "schedule",
        "kubernetes",
        "runtime",
        "telemetry",
        "mode",
        "strict",
    ]


ACCEPTED = [
    "node: {reservedCPUs: 2}",
    "node: {reservedCPUs: '0-1,8'}",
    "node: {reservedCPUs: ' 0 , 1 '}",
    "node: {reservedCPUs: 0}",
    "node: {reservedMemory: 2Gi}",
    "node: {reservedMemory: 1024}",
    "node: {kubeletCPUManager: refuse}",
    "node: {kubeletCPUManager: preserve-kubelet}",
    "classes: {shared: {memoryHigh: 90%, memoryLow: 1Gi, memoryMin: 1024}}",
    "classes: {shared: {memoryHigh: null, cpuShares: 1024}}",
    "classes: {dedicated: {oomScoreAdj: -998}}",
    "classes: {reclaimed: {oomScoreAdj: 500}}",
    "classes: {system: {allowNamespaces: [a, 'b-*']}}",
    "runtime: {pluginIndex: '07', pluginName: a.b+c_d-E}",
    "runtime: {pluginIndex: 10, updatesPerReply: 0}",
    "runtime: {updatesPerReply: 64, handlers: {kata: pod, runc: container, x: ignore}}",
    "telemetry: {http: 'off'}",
    "telemetry: {http: '[::1]:0', auditRing: 1, logLevel: debug}",
    "reclaim: {members: [/hadoop-yarn, batch.slice/jobs.slice, system.slice/yarn.service]}",
    "reclaim: {members: }",
    "reclaim: {features: []}",
    "reclaim: {features: [scheduler-hints, scheduler-idle, quota-burst, restore-on-exit]}",
    "kubernetes: ",
    "kubernetes: {report: 'off'}",
    "kubernetes: {evict: true}",
    "kubernetes: {events: false}",
    "kubernetes: {report: status, resources: katalyst, companionUid: 1000, companionGid: 1000}",
    "kubernetes: {resources: {cpu: example.com/cpu, memory: example.com/memory}}",
    "schedule: ",
    "schedule: {windows: }",
    "schedule: {windows: [{}]}",
    "schedule: {timeZone: America/New_York, outside: 0, grace: 0}",
    "schedule: {grace: 24h}",
    "schedule: {grace: 90s}",
    "schedule: {windows: [{days: mon, from: '00:00', to: '24:00', lend: 0}]}",
    "schedule: {windows: [{days: 'mon, wed-fri', from: '22:00', to: '06:00'}]}",
    "schedule: {windows: [{days: sun-mon}]}",
    "mode: observe",
    "strict: true",
    "apiVersion: coloc.nri.io/v1",
]


def parsed(text: str) -> schema.File:
    return schema.File.model_validate(tuples(yaml.safe_load(text)))


@pytest.mark.parametrize("text", ACCEPTED)
def test_what_the_contract_allows_is_accepted(text):
    accepted = parsed(text).model_dump(by_alias=True, exclude_unset=True)
    assert accepted.keys() == yaml.safe_load(text).keys()


@pytest.mark.parametrize(
    ("text", "empty"),
    [
        ("node:", "node: {}"),
        ("classes: {rules: }", "classes: {rules: []}"),
        ("classes: {system: }", "classes: {system: {}}"),
        ("classes: {system: {allowNamespaces: }}", "classes: {system: {allowNamespaces: []}}"),
    ],
    ids=["node", "rules", "system", "namespaces"],
)
def test_a_section_whose_lines_are_commented_out_is_empty(text, empty):
    assert parsed(text) == parsed(empty)


REFUSED = [
    "node: {reservedCPUs: -1}",
    "node: {reservedCPUs: 99999}",
    "node: {reservedCPUs: true}",
    "node: {reservedCPUs: 3-1}",
    "node: {reservedCPUs: '0,,1'}",
    "node: {reservedCPUs: '0-1,'}",
    "node: {reservedCPUs: null}",
    "node: {reservedMemory: 10%}",
    "node: {kubeletCPUManager: static}",
    "node: {kubeletCPUManager: true}",
    "node: {reservedMemory: true}",
    "classes: {shared: {cpuShares: 1}}",
    "classes: {shared: {cpuShares: 262145}}",
    "classes: {shared: {cpuShares: '1024'}}",
    "classes: {shared: {ioWeight: 0}}",
    "classes: {shared: {ioWeight: 10001}}",
    "classes: {shared: {ioWeight: 1.5}}",
    "classes: {dedicated: {oomScoreAdj: 1}}",
    "classes: {shared: {memoryHigh: 0}}",
    "classes: {reclaimed: {memoryHigh: 0%}}",
    "classes: {shared: {oomScoreAdj: 1000}}",
    "classes: {reclaimed: {oomScoreAdj: 499}}",
    "classes: {system: {oomScoreAdj: -1000}}",
    "classes: {shared: {memoryHigh: 101%}}",
    "classes: {shared: {memoryLow: lots}}",
    "classes: {shared: {allowNamespaces: kube-system}}",
    "classes: {shared: {allowNamespaces: ['']}}",
    "classes: {gold: {}}",
    "classes: {rules: [{class: shared}]}",
    "classes: {rules: [{namespace: x}]}",
    "classes: {rules: [{namespace: x, class: gold}]}",
    "classes: {rules: [{label: novalue, class: shared}]}",
    "classes: {rules: [{annotation: =v, class: shared}]}",
    "pools: [gold]",
    "pools: {gold: 1}",
    "pools: {reserved: {}}",
    "pools: {dedicated: {}}",
    "pools: {system: {}}",
    "pools: {isolated: {}}",
    "pools: {a/b: {}}",
    "pools: {'': {}}",
    "pools: {gold: {minCPUs: -1}}",
    "pools: {gold: {minCPUs: 1.5}}",
    "pools: {gold: {minCPUs: 4, maxCPUs: 3}}",
    "pools: {gold: {maxCPUs: 99999}}",
    "pools: {gold: {kind: batch}}",
    "pools: {gold: {groupBy: node}}",
    "pools: {gold: {groupBy: 'label:'}}",
    "pools: {gold: {members: [{}]}}",
    "pools: {gold: {members: {namespace: x}}}",
    "pools: {gold: {priority: high}}",
    "pools: {gold: {band: [50, 30]}}",
    "pools: {gold: {band: [30, 30]}}",
    "pools: {gold: {band: [0, 30]}}",
    "pools: {gold: {band: [30, 101]}}",
    "pools: {gold: {band: [30]}}",
    "pools: {share: {maxCPUs: 3}}",
    "pools: {share: {members: []}}",
    "pools: {reclaim: {band: [30, 50]}}",
    "reclaim: 1",
    "reclaim: {members: hadoop-yarn}",
    "reclaim: {members: [/]}",
    "reclaim: {members: [batch.slice/jobs.slice, batch.slice]}",
    "reclaim: {members: [a/../..]}",
    "reclaim: {members: [kubepods/besteffort]}",
    "reclaim: {members: [/kubepods.slice]}",
    "reclaim: {members: [/system.slice/]}",
    "reclaim: {features: scheduler-hints}",
    "reclaim: {features: [turbo]}",
    "pressure: [1]",
    "schedule: {a: 1}",
    "schedule: {timeZone: Europe}",
    "schedule: {timeZone: Europe/Berlni}",
    "schedule: {timeZone: ../etc/passwd}",
    "schedule: {timeZone: /etc/localtime}",
    "schedule: {timeZone: ''}",
    "schedule: {outside: 101}",
    "schedule: {outside: -1}",
    "schedule: {outside: true}",
    "schedule: {grace: 10}",
    "schedule: {grace: 10 m}",
    "schedule: {grace: ''}",
    "schedule: {grace: 24h1s}",
    "schedule: {grace: -5m}",
    "schedule: {windows: {days: mon}}",
    "schedule: {windows: [{days: monday}]}",
    "schedule: {windows: [{days: MON}]}",
    "schedule: {windows: [{days: ''}]}",
    "schedule: {windows: [{days: 'mon,'}]}",
    "schedule: {windows: [{days: mon-}]}",
    "schedule: {windows: [{from: '24:00'}]}",
    "schedule: {windows: [{from: '7:00'}]}",
    "schedule: {windows: [{from: '22:60'}]}",
    "schedule: {windows: [{to: '24:01'}]}",
    "schedule: {windows: [{from: '06:00', to: '06:00'}]}",
    "schedule: {windows: [{lend: 101}]}",
    "schedule: {windows: [{lend: 0.5}]}",
    "kubernetes: {a: 1}",
    "kubernetes: {report: nodes}",
    "kubernetes: {evict: often}",
    "kubernetes: {events: some}",
    "kubernetes: {report: true}",
    "kubernetes: {resources: batch}",
    "kubernetes: {resources: {cpu: example.com/cpu}}",
    "kubernetes: {resources: {cpu: example.com/a, memory: example.com/a}}",
    "kubernetes: {resources: {cpu: cpu, memory: example.com/a}}",
    "kubernetes: {resources: {cpu: kubernetes.io/mine, memory: example.com/a}}",
    "kubernetes: {companionUid: -1}",
    "kubernetes: {companionGid: root}",
    "runtime: {nriSocket: relative}",
    "runtime: {criSocket: /" + "x" * 107 + "}",
    "runtime: {pluginIndex: 5}",
    "runtime: {pluginIndex: '100'}",
    'runtime: {pluginIndex: "50\\n"}',
    "runtime: {pluginName: a/b}",
    "runtime: {pluginName: ''}",
    "runtime: {updatesPerReply: 65}",
    "runtime: {updatesPerReply: -1}",
    "runtime: {handlers: {kata: vm}}",
    "telemetry: {http: '9744'}",
    "telemetry: {http: 'localhost:99999'}",
    "telemetry: {http: false}",
    "telemetry: {auditRing: 0}",
    "telemetry: {logLevel: loud}",
    "mode: fast",
    "strict: 1",
    "apiVersion: coloc.nri.io/v2",
    "other: 1",
]


@pytest.mark.parametrize("text", REFUSED)
def test_what_the_contract_does_not_allow_is_refused(text):
    with pytest.raises(ValidationError):
        schema.File.model_validate(tuples(yaml.safe_load(text)))


def test_a_hundred_rules_are_enough():
    rules = ({"namespace": "x", "class": "shared"},) * 101
    with pytest.raises(ValidationError):
        schema.File.model_validate({"classes": {"rules": rules}})


def test_thirty_two_windows_are_enough():
    with pytest.raises(ValidationError):
        schema.File.model_validate({"schedule": {"windows": ({"lend": 50},) * 33}})


def tuples(value: Any) -> Any:
    """Return the value with tuples for lists, as the project's YAML reader gives it."""
    if isinstance(value, dict):
        return {key: tuples(item) for key, item in value.items()}
    return tuple(tuples(item) for item in value) if isinstance(value, list) else value


def documented_defaults() -> dict[str, set[str]]:
    """Return by key the defaults that the tables of the document name for it, in any section."""
    tables = re.findall(
        r"^\| key[^|]*\| default \|.*\n.*\n((?:\|.*\n)+)", DOCUMENTED.read_text(), re.MULTILINE
    )
    found: dict[str, set[str]] = {}
    for row in "".join(tables).splitlines():
        _, key, default, _ = row.split("|", 3)
        values = (document.read(text).data for text in re.findall("`([^`]*)`", default))
        found.setdefault(key.strip(" `"), set()).update(map(plain, values))
    return found


def defaults() -> dict[str, set[str]]:
    """Return by key the defaults of all sections that have it, without keys that every rule or selector must set."""
    found: dict[str, set[str]] = {}
    for model in set(sections(schema.File)) - {schema.Rule, Selector}:
        for key, value in model.model_construct().model_dump(mode="json", by_alias=True).items():
            if (model.__name__, key) in leaves():
                found.setdefault(key, set()).add(plain(value))
    return found


def plain(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def test_the_document_names_the_defaults_of_the_schema():
    known, documented = defaults(), documented_defaults()
    without = {
        "rules",
        "pools",
        "resources",
    }  # of rules and pools the text says it; resources may be one word or two
    assert {key: documented.get(key) for key in known.keys() - without} == {
        key: value for key, value in known.items() if key not in without
    }
