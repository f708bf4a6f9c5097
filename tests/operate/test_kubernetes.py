"""The Kubernetes manifests, as far as they can be looked at without a cluster: against the image, and the flags of the binary."""

import os
import pathlib
import re
import subprocess

import pytest
import yaml

DEPLOY = pathlib.Path(__file__).parents[2] / "deploy/kubernetes"


def documents(path):
    return list(yaml.safe_load_all(path.read_text()))


@pytest.fixture
def manifests():
    return {document["kind"]: document for document in documents(DEPLOY / "factord.yaml")}


@pytest.fixture
def pod(manifests):
    return manifests["Deployment"]["spec"]["template"]["spec"]


@pytest.fixture
def gpu_pod():
    [patch] = documents(DEPLOY / "gpu/kustomization.yaml")[0]["patches"]
    return yaml.safe_load(patch["patch"])["spec"]["template"]["spec"]


def test_kustomizations_name_what_is_there(manifests, gpu_pod):
    assert documents(DEPLOY / "kustomization.yaml")[0]["resources"] == ["factord.yaml"]
    assert documents(DEPLOY / "gpu/kustomization.yaml")[0]["resources"] == [".."]
    # A patch finds its container by name.
    deployment = manifests["Deployment"]
    assert gpu_pod["containers"][0]["name"] == deployment["spec"]["template"]["spec"]["containers"][0]["name"]


def test_selectors_select_the_pods(manifests):
    labels = manifests["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert manifests["Deployment"]["spec"]["selector"]["matchLabels"] == labels
    assert manifests["Service"]["spec"]["selector"] == labels
    assert manifests["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels


def test_the_service_is_headless_and_its_ports_are_the_containers(manifests, pod):
    service = manifests["Service"]["spec"]
    assert service["clusterIP"] == "None"
    ports = {port["name"]: port["containerPort"] for port in pod["containers"][0]["ports"]}
    assert ports == {"grpc": 50051, "metrics": 9464}
    assert {port["targetPort"]: port["port"] for port in service["ports"]} == ports


def test_pods_may_do_nothing_they_need_not(pod):
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] == 10001
    container = pod["containers"][0]["securityContext"]
    assert container == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}


def test_pods_get_time_to_drain(pod):
    seconds = {name: int(value) for name, value in
               re.findall(r"--(drain_delay|grace_period)=(\d+)s", " ".join(pod["containers"][0]["args"]))}
    assert pod["terminationGracePeriodSeconds"] > seconds["drain_delay"] + seconds["grace_period"]
    readiness = pod["containers"][0]["readinessProbe"]
    assert seconds["drain_delay"] > readiness["periodSeconds"]


def test_a_gpu_is_asked_for_and_required(gpu_pod, pod):
    [container] = gpu_pod["containers"]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == 1
    # A patch replaces the list.
    assert container["args"] == [*pod["containers"][0]["args"], "--gpu=required"]


def test_the_binary_knows_every_flag(pod, gpu_pod):
    # The last one ends it, once all are read.
    for arguments in (pod["containers"][0]["args"], gpu_pod["containers"][0]["args"]):
        result = subprocess.run([os.environ["FACTORD_BINARY"], *arguments, "--version"], capture_output=True, text=True, timeout=60)
        assert (result.returncode, result.stderr) == (0, "")
    for probe in ("startupProbe", "readinessProbe"):
        assert pod["containers"][0][probe]["exec"]["command"] == ["/usr/local/bin/factord", "--probe=127.0.0.1:50051"]
