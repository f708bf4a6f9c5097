"""Debian's Prometheus, with deploy/prometheus' configuration."""

import contextlib
import json
import math
import pathlib
import re
import subprocess
import urllib.error
import urllib.parse
import urllib.request

import yaml
from harness import wait_until

DEPLOY = pathlib.Path(__file__).parents[2] / "deploy" / "prometheus"
INTERVAL = "500ms"


class Prometheus:
    """One process; scrapes `targets` (host:port). Ends only itself, by its handle."""

    def __init__(self, folder, targets):
        config = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())
        config["global"] = {"scrape_interval": INTERVAL, "evaluation_interval": INTERVAL}
        config["rule_files"] = [str(DEPLOY / pattern) for pattern in config["rule_files"]]
        config["scrape_configs"][0]["static_configs"] = [{"targets": targets}]
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        self.log = folder / "log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
                 "--web.listen-address=127.0.0.1:0"], stdout=log, stderr=log)

    def wait_until_ready(self):
        wait_until(self._ready, timeout=60)

    def _ready(self):
        log = self.log.read_text()
        assert self.process.poll() is None, log
        address = re.search(r'msg="Listening on" address=(\S+)', log)
        if not address or "Server is ready" not in log:
            return False
        self.url = f"http://{address[1]}/api/v1"
        return True

    def get(self, path, **parameters):
        try:
            with urllib.request.urlopen(f"{self.url}/{path}?{urllib.parse.urlencode(parameters)}", timeout=30) as reply:
                return json.load(reply)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from None

    def values(self, expression):
        """The numbers that the expression is now; NaN is none."""
        data = self.get("query", query=expression)
        pairs = [data["result"]] if data["resultType"] == "scalar" else [series["value"] for series in data["result"]]
        return [float(value) for _, value in pairs if not math.isnan(float(value))]

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise


@contextlib.contextmanager
def scraping(folder, *servers):
    prometheus = Prometheus(folder, [urllib.parse.urlsplit(server.metrics_url).netloc for server in servers])
    try:
        prometheus.wait_until_ready()
        # Some seconds after that: it looks for targets every five.
        wait_until(lambda: prometheus.values("up") == [1] * len(servers))
        yield prometheus
    finally:
        prometheus.stop()
