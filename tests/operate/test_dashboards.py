"""Dashboard, recording rules and alerts: the real Prometheus scrapes a server under load and evaluates all of them.

No expression needs a GPU to have data: what is told by device is told of the CPU too. There is no Grafana here: of the dashboard the
JSON is checked."""

import os
import pathlib
import re
import subprocess
import sys
import threading

import grpc
import numpy as np
import pytest
import yaml
from harness import normal, pb, qr_request, running, tensor, wait_until
from prometheus import DEPLOY, scraping

ROOT = DEPLOY.parents[1]
GRAFANA = ROOT / "deploy" / "grafana"
sys.path.insert(0, str(GRAFANA))
import make_dashboard  # noqa: E402

DASHBOARD = make_dashboard.dashboard()
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
RULES = [rule for path in sorted((DEPLOY / "rules").glob("*.yml"))
         for group in yaml.safe_load(path.read_text())["groups"] for rule in group["rules"]]
RECORDS = {rule["record"]: rule["expr"] for rule in RULES if "record" in rule}
ALERTS = {rule["alert"]: rule for rule in RULES if "alert" in rule}
EXPRESSIONS = {f"{panel['title']} {target['refId']}": target["expr"] for panel in PANELS for target in panel["targets"]}
UNITS = {"none", "short", "s", "bytes", "Bps", "reqps", "ops", "flops", "percentunit"}  # Grafana's names
# Sides of alerts that have no data while all is well, and why.
EMPTY = {'absent(up{job="factord"})': "the job is there"}


def substituted(expression):
    """As Grafana sends it, all instances chosen."""
    for variable, value in [("$job", "factord"), ("$instance", ".*"), ("$__rate_interval", "10s")]:
        expression = expression.replace(variable, value)
    return expression


def sides(expression):
    """What an alert compares: it has data even while the alert is silent."""
    return re.split(r"\s(?:==|>|and)\s", expression)


# ---- with a live server

class Load:
    """Every kind of request, good and bad, over and over."""

    def __init__(self, server):
        self.stub = server.stub()
        self.stopped = threading.Event()
        self.failure = None
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self):
        try:
            while not self.stopped.is_set():
                self._once()
        except Exception as error:  # told by stop(), on the test's thread
            self.failure = error

    def _once(self):
        bad = normal(4, 8, 8)
        bad[1, 2, 3] = np.nan
        for request in (qr_request(normal(50, 16, 16)), qr_request(normal(3, 40, 20, dtype="c16")), qr_request(bad)):
            self.stub.Factorize(request)
        self.stub.Solve(pb.SolveRequest(problems=[pb.LeastSquaresProblem(a=tensor(normal(9, 4)), b=tensor(normal(9, 1)))]))
        with pytest.raises(grpc.RpcError):
            self.stub.Factorize(pb.FactorizeRequest(a=[pb.Tensor(dtype=pb.DTYPE_F32, dims=[3, 3])], qr=pb.QrOptions(r=True)))

    def stop(self):
        self.stopped.set()
        self.thread.join()
        if self.failure:
            raise self.failure


def bench(server):
    subprocess.run([os.environ["FACTORCTL_BINARY"], "bench", f"--server={server.target}", "--shape=20x16x16", "--clients=2",
                    "--warmup=0s", "--duration=2s"], check=True, capture_output=True, timeout=120)


def fill_and_drain_the_queue(server, prometheus):
    """Behind one matrix that takes seconds 8 small requests wait, and the next is refused; then all is done."""
    stub = server.stub()
    calls = [stub.Factorize.future(qr_request(normal(3000, 3000, dtype="c16"), q=pb.Q_MODE_UNSPECIFIED))]
    wait_until(lambda: server.metrics()["factord_running_jobs"] > 0)
    calls += [stub.Factorize.future(qr_request(normal(20, 20))) for _ in range(8)]
    wait_until(lambda: server.metrics()["factord_queue_jobs"] == 8)
    assert stub.Factorize.future(qr_request(normal(20, 20))).code() == grpc.StatusCode.UNAVAILABLE
    wait_until(lambda: prometheus.values("max_over_time(factord_queue_oldest_age_seconds[10m]) > 0"))
    assert {call.code() for call in calls} == {grpc.StatusCode.OK}
    wait_until(lambda: server.metrics()["factord_queue_jobs"] == 0)


@pytest.fixture(scope="module")
def server():
    with running("--cpu_threads=1", "--max_queued_jobs=8", "--max_message_bytes=200000000") as running_server:
        yield running_server


@pytest.fixture(scope="module")
def prometheus(server, tmp_path_factory):
    with scraping(tmp_path_factory.mktemp("prometheus"), server) as running_prometheus:
        fill_and_drain_the_queue(server, running_prometheus)
        bench(server)
        load = Load(server)
        try:
            # Ten seconds of rates, then the rules' rates of rates: all of it by then.
            wait_until(lambda: running_prometheus.values("job:factord_request_errors:ratio_rate3d"), timeout=60)
            yield running_prometheus
        finally:
            load.stop()


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_every_panel_has_data(prometheus, name):
    wait_until(lambda: prometheus.values(substituted(EXPRESSIONS[name])))


@pytest.mark.parametrize("record", RECORDS)
def test_every_recording_rule_records(prometheus, record):
    wait_until(lambda: prometheus.values(record))


@pytest.mark.parametrize("name", ALERTS)
def test_what_an_alert_compares_has_data(prometheus, name):
    for side in sides(ALERTS[name]["expr"]):
        if side in EMPTY:
            assert prometheus.values(side) == []
        else:
            wait_until(lambda side=side: prometheus.values(side))


def test_prometheus_takes_every_rule(prometheus):
    wait_until(lambda: all(rule["health"] == "ok" for group in prometheus.get("rules")["groups"] for rule in group["rules"]))
    loaded = [rule["name"] for group in prometheus.get("rules")["groups"] for rule in group["rules"]]
    assert sorted(loaded) == sorted([*RECORDS, *ALERTS])


def test_the_variables_find_the_server(prometheus, server):
    """As Grafana asks for label_values."""
    assert prometheus.get("label/job/values", **{"match[]": "factord_build_info"}) == ["factord"]
    instances = prometheus.get("label/instance/values", **{"match[]": 'factord_build_info{job="factord"}'})
    assert [f"http://{instance}/metrics" for instance in instances] == [server.metrics_url]


def test_prometheus_has_seen_the_refusal_and_the_queue_come_and_go(prometheus):
    for gauge in ("factord_queue_jobs", "factord_queue_oldest_age_seconds", "factord_device_batch_age_seconds"):
        assert prometheus.values(f"max_over_time({gauge}[10m])")[0] > 0
    assert prometheus.values('factord_rejected_total{reason="queue_full"}') == [1]
    assert prometheus.values("factord_queue_jobs")[0] < 8


def metric_of(name, families):
    """The family of a series' name."""
    base = re.sub(r"_(bucket|sum|count)$", "", name)
    return base if families.get(base) == "histogram" else name


def test_every_metric_that_is_named_exists(prometheus, server):
    families = {item["metric"]: item["type"] for item in prometheus.get("targets/metadata") if item["metric"].startswith("factord_")}
    texts = [*EXPRESSIONS.values(), *RECORDS.values(), *(alert["expr"] for alert in ALERTS.values())]
    texts += re.findall(r"`(factord_[^`]*)`", (ROOT / "docs" / "alerts.md").read_text() + (ROOT / "docs" / "operations.md").read_text())
    named = {metric_of(name, families) for text in texts for name in re.findall(r"(?<![\w:])factord_\w+(?![\w:])", text)}
    assert len(named) > 20 and named <= set(families)


# ---- rules

def promtool(*arguments):
    result = subprocess.run(["promtool", *arguments], capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stdout + result.stderr


def test_promtool_accepts_configuration_and_rules():
    promtool("check", "config", "--lint-fatal", str(DEPLOY / "prometheus.yml"))


@pytest.mark.parametrize("path", sorted((DEPLOY / "tests").glob("*.yml")), ids=lambda path: path.stem)
def test_rules_on_both_sides_of_each_threshold(path):
    promtool("test", "rules", str(path))


def test_every_alert_is_tested_firing_and_silent():
    firing, silent = set(), set()
    for path in (DEPLOY / "tests").glob("*.yml"):
        for test in yaml.safe_load(path.read_text())["tests"]:
            for check in test.get("promql_expr_test", []):
                (firing if check["exp_samples"] else silent).update(re.findall(r'alertname="(\w+)"', check["expr"]))
    assert firing == silent == set(ALERTS)


def test_every_alert_says_what_it_is_and_what_to_do():
    text = (ROOT / "docs" / "alerts.md").read_text()
    anchors = {heading.lower() for heading in re.findall(r"^## (\w+)$", text, re.M)}
    listed = dict(re.findall(r"^\| \[(\w+)\]\(#\w+\) \| (\w+) \|", text, re.M))
    assert listed == {name: alert["labels"]["severity"] for name, alert in ALERTS.items()}
    for alert in ALERTS.values():
        annotations = alert["annotations"]
        assert annotations["summary"] and annotations["description"].endswith(".")
        document, _, anchor = annotations["runbook"].partition("#")
        assert document == "docs/alerts.md" and anchor in anchors
        assert alert["labels"]["severity"] in ("page", "ticket")
    assert anchors == {alert["annotations"]["runbook"].partition("#")[2] for alert in ALERTS.values()}


def test_recorded_series_that_are_named_are_recorded():
    texts = [*EXPRESSIONS.values(), *RECORDS.values(), *(alert["expr"] for alert in ALERTS.values()),
             (ROOT / "docs" / "alerts.md").read_text()]
    named = {name for text in texts for name in re.findall(r"\b(?:\w+:)?factord\w*:\w+(?::\w+)?", text)}
    assert named and named <= set(RECORDS)


# ---- the dashboard's JSON

def test_the_dashboard_is_what_its_script_writes():
    assert make_dashboard.OUTPUT.read_text() == make_dashboard.text(), "run deploy/grafana/make_dashboard.py"


def test_panels_have_ids_of_their_own_and_do_not_overlap():
    everything = DASHBOARD["panels"]
    assert len({panel["id"] for panel in everything}) == len(everything)
    taken = set()
    for panel in everything:
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
        assert not cells & taken and all(0 <= x < 24 for x, _ in cells), panel["title"]
        taken |= cells
    # No holes either: each row of the grid is full, or is a row's title.
    assert len(taken) == 24 * (max(y for _, y in taken) + 1)


def test_every_panel_says_what_it_shows_and_in_what():
    assert len({panel["title"] for panel in PANELS}) == len(PANELS)
    for panel in PANELS:
        assert panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"] in UNITS, panel["title"]
        refs = [target["refId"] for target in panel["targets"]]
        assert refs and len(set(refs)) == len(refs)


def test_every_panel_asks_the_chosen_source_for_the_chosen_servers():
    names = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    assert names == {"datasource", "job", "instance"}
    for panel in PANELS:
        for asking in [panel, *panel["targets"]]:
            assert asking["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    for name, expression in EXPRESSIONS.items():
        assert set(re.findall(r"\$(\w+)", expression)) <= {"job", "instance", "__rate_interval"}, name
        # Whatever it reads of a server is of the chosen ones.
        for metric in re.findall(r"(?<![\w:])factord_\w+", expression):
            assert f'{metric}{{job="$job", instance=~"$instance"' in expression, name
        assert set(re.findall(r"\[(\S+?)\]", expression)) <= {"$__rate_interval"}, name


# ---- what wires them together

def test_grafana_is_told_where_prometheus_and_the_dashboard_are():
    services = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())["services"]
    source = yaml.safe_load((GRAFANA / "provisioning/datasources/prometheus.yml").read_text())["datasources"][0]
    provider = yaml.safe_load((GRAFANA / "provisioning/dashboards/factord.yml").read_text())["providers"][0]
    scrape = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())

    assert source["url"] == "http://prometheus:9090" and source["type"] == "prometheus"
    assert source["jsonData"]["timeInterval"] == scrape["global"]["scrape_interval"]
    mounts = dict(mount.split(":")[1::-1] for mount in services["grafana"]["volumes"])
    assert (ROOT / "deploy" / mounts[provider["options"]["path"]]).resolve() == make_dashboard.OUTPUT.parent
    home = pathlib.PurePath(services["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"])
    assert (ROOT / "deploy" / mounts[str(home.parent)] / home.name).exists()


def test_compose_mounts_what_exists_scrapes_the_server_and_stays_on_this_host():
    services = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())["services"]
    for service in services.values():
        for source in (mount.split(":")[0] for mount in service.get("volumes", []) if mount.startswith(".")):
            assert (ROOT / "deploy" / source).exists()
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    targets = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())["scrape_configs"][0]["static_configs"][0]["targets"]
    for target, service in [("cpu", services["factord-cpu"]), ("cuda", services["factord-cuda"])]:
        assert service["build"] == {"context": "..", "target": target} and service["profiles"] == [target]
        metrics_port = next(flag for flag in service["command"] if flag.startswith("--metrics_listen=")).rpartition(":")[2]
        assert targets == [f"{service['networks']['default']['aliases'][0]}:{metrics_port}"]
