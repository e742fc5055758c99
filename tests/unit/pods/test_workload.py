"""Pods that are copies of one workload get the same workload name."""

import pytest

from nri_coloc.core.workload import Pod
from nri_coloc.pods.replicas import workload_of


def of(name: str, **labels: str) -> str:
    named = {key.replace("__", "/").replace("_", "-"): value for key, value in labels.items()}
    return workload_of(Pod("p", name=name, namespace="shop", labels=named))


@pytest.mark.parametrize(
    ("story", "name", "workload"),
    [
        ("a Deployment's pod", "web-6d4cf56db6-x7k2p", "web"),
        ("of a Deployment with dashes", "web-front-end-7b9c5d8f4d-zz8lk", "web-front-end"),
        ("a DaemonSet's pod", "node-exporter-h8wqz", "node-exporter"),
        ("a StatefulSet's pod", "db-0", "db"),
        ("its eleventh", "db-10", "db"),
        ("a CronJob's pod", "backup-29384760-kx2tl", "backup"),
        ("a bare pod", "debug", "debug"),
        ("a bare pod with a vowel in its last word", "nginx-proxy-alpha", "nginx-proxy-alpha"),
        ("a static pod", "kube-apiserver-node-a", "kube-apiserver-node-a"),
        ("nothing before the suffix", "-x7k2p", "-x7k2p"),
        ("no name at all", "", ""),
    ],
)
def test_a_name_says_what_a_pod_is_a_copy_of(story, name, workload):
    assert of(name) == f"shop/{workload}"


def test_a_restarted_pod_of_a_new_revision_is_the_same_workload():
    assert of("web-6d4cf56db6-x7k2p") == of("web-5f7b8c9d66-q2w4r")


def test_a_template_label_is_exact_where_the_name_would_mislead():
    assert of("web-1-abc-x7k2p", pod_template_hash="abc") == "shop/web-1"


def test_a_stateful_pods_label_keeps_a_name_that_looks_generated():
    name = "cache-xkcd5-3"
    assert of(name, **{"statefulset.kubernetes.io__pod_name": name}) == "shop/cache-xkcd5"


@pytest.mark.parametrize("label", ["job_name", "batch.kubernetes.io__job_name"])
def test_a_jobs_label_names_it_without_the_cron_minute(label):
    assert of("report-29384760-kx2tl", **{label: "report-29384760"}) == "shop/report"
    assert of("import-kx2tl", **{label: "import"}) == "shop/import"


def test_workloads_of_two_namespaces_are_two():
    one, other = (workload_of(Pod("p", name="db-0", namespace=name)) for name in ("a", "b"))
    assert one != other
