#!/usr/bin/env python3
"""Writes dashboards/factord.json. Edit the panels here, run this, commit both."""

import json
import pathlib

OUTPUT = pathlib.Path(__file__).parent / "dashboards" / "factord.json"
WIDTH = 24  # of Grafana's grid
HEIGHT = 8  # of a panel
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
CHOSEN = 'job="$job", instance=~"$instance"'  # what the variables at the top choose


def rate(metric, labels="", by=""):
    matchers = ", ".join(filter(None, [CHOSEN, labels]))
    return f"sum by ({by}) (rate({metric}{{{matchers}}}[$__rate_interval]))"


def quantile(q, histogram, by, labels=""):
    return f"histogram_quantile({q}, {rate(histogram + '_bucket', labels, f'le, {by}')})"


def gauge(metric, labels=""):
    return f"{metric}{{{', '.join(filter(None, [CHOSEN, labels]))}}}"


def panel(title, description, targets, unit, kind="timeseries", stacked=False, **more):
    """`targets`: (expression, legend) pairs."""
    custom = {"lineWidth": 1, "fillOpacity": 30 if stacked else 0, "showPoints": "never"}
    if stacked:
        custom["stacking"] = {"mode": "normal", "group": "A"}
    defaults = {"unit": unit, "min": 0}
    if kind == "timeseries":
        defaults["custom"] = custom
    options = {
        "timeseries": {"legend": {"displayMode": "table", "placement": "bottom", "calcs": ["mean", "max", "lastNotNull"]},
                       "tooltip": {"mode": "multi", "sort": "desc"}},
        "stat": {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "value", "graphMode": "area"},
    }.get(kind, {})
    return {
        "type": kind, "title": title, "description": description, "datasource": SOURCE,
        "fieldConfig": {"defaults": {**defaults, **more}, "overrides": []},
        "options": options,
        "targets": [{"refId": chr(ord("A") + i), "datasource": SOURCE, "expr": expression, "legendFormat": legend}
                    for i, (expression, legend) in enumerate(targets)],
    }


def thresholds(*steps):
    """(value, color) pairs, the first value None: from everywhere below."""
    return {"mode": "absolute", "steps": [{"value": value, "color": color} for value, color in steps]}


def mapping(**texts):
    """Texts for the values 0 and 1."""
    return [{"type": "value", "options": {
        "0": {"text": texts["no"], "color": "red"}, "1": {"text": texts["yes"], "color": "green"}}}]


def versions():
    table = panel("Version", "What each server is running (factord_build_info).",
                  [(gauge("factord_build_info"), "")], "none", kind="table")
    table["targets"][0] |= {"format": "table", "instant": True}
    shown = ["instance", "version", "grpc", "lapack", "compiler"]
    table["transformations"] = [{"id": "filterFieldsByName", "options": {"include": {"names": shown}}}]
    return table


def latency_heatmap():
    heatmap = panel("Time of requests", "How many requests took how long, all RPCs together. Two bands mean two kinds of requests, or "
                    "some that wait and some that do not.",
                    [(rate("factord_request_duration_seconds_bucket", by="le"), "{{le}}")], "reqps", kind="heatmap")
    heatmap["targets"][0]["format"] = "heatmap"
    heatmap["options"] = {"calculate": False, "yAxis": {"unit": "s"}, "color": {"mode": "scheme", "scheme": "Blues"},
                          "cellGap": 0}
    return heatmap


def rows():
    """(row's title, [(panel, width)])."""
    health = panel("Serving", "What the health service says. NOT_SERVING: starting or draining; at least one server should serve.",
                   [(gauge("factord_serving"), "{{instance}}")], "none", kind="stat",
                   mappings=mapping(no="NOT_SERVING", yes="SERVING"))
    devices = panel("Devices", "LOST: the device gave an error that it does not recover from; its work goes to the others, or to the "
                    "CPU, until the server is started again.",
                    [(gauge("factord_device_healthy"), "{{instance}} {{device}}")], "none", kind="stat",
                    mappings=mapping(no="LOST", yes="healthy"))
    alerts = panel("Alerts firing", "Of factord's alerts, over all jobs and instances. What each means and what to do: docs/alerts.md.",
                   [('count(ALERTS{alertname=~"Factord.*", alertstate="firing"}) or vector(0)', "firing")], "none", kind="stat",
                   thresholds=thresholds((None, "green"), (1, "red")))
    errors = panel("Errors of the server", "Share of requests that ended with a code that is the server's fault (UNAVAILABLE, INTERNAL, "
                   "UNKNOWN, DATA_LOSS), over 5 minutes, from the recording rule; all instances of the job.",
                   [('job:factord_request_errors:ratio_rate5m{job="$job"}', "errors")], "percentunit", kind="stat",
                   thresholds=thresholds((None, "green"), (0.001, "orange"), (0.01, "red")), decimals=3)

    yield "Health", [(health, 5), (devices, 5), (alerts, 3), (errors, 4), (versions(), 7)]

    yield "Traffic", [
        (panel("Requests", "Ended, by RPC. Each request of a stream counts.",
               [(rate("factord_requests_total", by="rpc"), "{{rpc}}")], "reqps", stacked=True), 8),
        (panel("Requests that failed", "By status code. UNAVAILABLE, INTERNAL, UNKNOWN and DATA_LOSS are the server's fault; the others "
               "are the client's, or its deadline's.",
               [(rate("factord_requests_total", 'code!="OK"', "code"), "{{code}}")], "reqps", stacked=True), 8),
        (panel("Requests in flight", "Arrived and not ended; and the FactorizeStream calls that are open.",
               [(f"sum by (rpc) ({gauge('factord_requests_in_flight')})", "{{rpc}}"),
                (f"sum({gauge('factord_streams')})", "open streams")], "short"), 8),
        (panel("Matrices", "Computed, by operation and type.",
               [(rate("factord_matrices_total", by="op, dtype"), "{{op}} {{dtype}}")], "ops", stacked=True), 6),
        (panel("Arithmetic", "Of the matrices computed, by LAPACK's counts; complex ones as real operations.",
               [(rate("factord_flops_total", by="op, dtype"), "{{op}} {{dtype}}")], "flops", stacked=True), 6),
        (panel("Bytes", "Request messages in, response messages out, as they are on the wire before compression.",
               [(rate("factord_received_bytes_total", by="job"), "received"), (rate("factord_sent_bytes_total", by="job"), "sent")],
               "Bps"), 6),
        (panel("Matrices with a status of their own", "They fail alone, their requests are OK: non-finite input, a result out of range, "
               "rank-deficient least squares. It is the data's matter, not the server's.",
               [(rate("factord_matrix_failures_total", by="code"), "{{code}}")], "ops", stacked=True), 6),
    ]

    request = "factord_request_duration_seconds"
    stage = "factord_stage_duration_seconds"
    yield "Latency", [
        *[(panel(f"Requests, {name}", f"{name} of the time from a request's arrival to its last result's departure, by RPC. "
                 "Of a stream's requests it includes the upload and the client's reading. Estimated within the histogram's buckets.",
                 [(quantile(q, request, "rpc"), "{{rpc}}")] + extra, "s"), 6)
          for q, name, extra in [(0.5, "median", []), (0.9, "p90", []),
                                 (0.99, "p99", [("factord:latency_objective:seconds", "objective")])]],
        (latency_heatmap(), 6),
        *[(panel(f"Stages, {name}", f"{name} by stage. decode, encode: of a request; queue: of a job, waiting for a lane; pack, compute, "
                 "unpack: of a job, summed over the threads that worked on it.",
                 [(quantile(q, stage, "stage"), "{{stage}}")], "s"), 8)
          for q, name in [(0.5, "median"), (0.99, "p99")]],
        (panel("Where the time goes", "Seconds a second that requests and jobs spend in each stage. Queue far above compute: more work "
               "comes than the lanes can do.",
               [(rate(f"{stage}_sum", by="stage"), "{{stage}}")], "none", stacked=True), 8),
    ]

    yield "Queue and batches", [
        (panel("Age of the queue", "How long the job that has waited longest for a lane has waited, now. Rising without end: overload, or "
               "a device that is stuck.", [(gauge("factord_queue_oldest_age_seconds"), "{{instance}}")], "s"), 8),
        (panel("Jobs", "Waiting for a lane, and on one.",
               [(gauge("factord_queue_jobs"), "{{instance}} waiting"), (gauge("factord_running_jobs"), "{{instance}} running")],
               "short"), 8),
        (panel("Memory", "Inputs and results of the jobs waiting; what all requests in flight hold of the budget; the budget.",
               [(gauge("factord_queue_bytes"), "{{instance}} queue"),
                (gauge("factord_memory_in_flight_bytes"), "{{instance}} in flight"),
                (gauge("factord_memory_budget_bytes"), "{{instance}} budget")], "bytes"), 8),
        (panel("Why batches close", "idle: a lane was, so nothing waits. full: the queue feeds full batches, the lanes are the limit. "
               "deadline: it could wait no longer.",
               [(rate("factord_batches_total", by="close_reason"), "{{close_reason}}")], "ops", stacked=True), 8),
        (panel("Matrices in a batch", "Median and p99, by device. It grows by itself with the load.",
               [(quantile(0.5, "factord_batch_matrices", "device"), "{{device}} median"),
                (quantile(0.99, "factord_batch_matrices", "device"), "{{device}} p99")], "short"), 8),
        (panel("Rejects", "Requests refused, and jobs dropped before they ran, by reason. queue_full, budget_full: too much load; expired, "
               "hopeless: deadlines that the queue is too long for; invalid, too_large, cancelled: the clients' doing.",
               [(rate("factord_rejected_total", by="reason"), "{{reason}}")], "ops", stacked=True), 8),
    ]

    yield "Devices and routing", [
        (panel("Busy", "Share of a device's lanes that run a batch. Counted when a batch ends: a device that is stuck looks idle here; "
               "see the age of its batch.",
               [(f"rate({gauge('factord_lane_busy_seconds_total')}[$__rate_interval]) / {gauge('factord_device_lanes')}",
                 "{{instance}} {{device}}")], "percentunit"), 8),
        (panel("Age of the running batch", "How long the oldest batch that each device runs now has been running; 0 while it runs none. A "
               "batch is meant to take --max_batch_cost or one large matrix's time; rising without end: the device is stuck.",
               [(gauge("factord_device_batch_age_seconds"), "{{instance}} {{device}}")], "s"), 8),
        (panel("Batches that a device did not finish", "By device and reason; they were run again on the CPU, unless pinned.",
               [(rate("factord_device_fallbacks_total", by="device, reason"), "{{device}} {{reason}}")], "ops", stacked=True), 8),
        (panel("Device memory", "total: what the device has, for the CPU what the server may use. reserved: taken on the device at the "
               "start. pinned: page-locked on the host for it.",
               [(gauge("factord_device_memory_bytes"), "{{instance}} {{device}} {{kind}}")], "bytes"), 8),
        (panel("Routing", "Tensors sent to each backend, by what the choice rests on. Many estimated or default: run factord tune on this "
               "machine.",
               [(rate("factord_route_total", by="backend, label"), "{{backend}} {{label}}")], "ops", stacked=True), 8),
        (panel("Batches by device", "Run by each device.",
               [(rate("factord_batches_total", by="device"), "{{device}}")], "ops", stacked=True), 8),
    ]


def placed():
    """The panels with their ids and places, row below row."""
    y, panels = 0, []
    for title, content in rows():
        panels.append({"type": "row", "title": title, "collapsed": False, "panels": [],
                       "gridPos": {"x": 0, "y": y, "w": WIDTH, "h": 1}})
        x, y = 0, y + 1
        for item, width in content:
            if x + width > WIDTH:
                x, y = 0, y + HEIGHT
            panels.append(item | {"gridPos": {"x": x, "y": y, "w": width, "h": HEIGHT}})
            x += width
        y += HEIGHT
    return [{"id": i} | item for i, item in enumerate(panels, 1)]


def variable(name, label, query, **more):
    return {"name": name, "label": label, "type": "query", "datasource": SOURCE, "definition": query, "refresh": 2, "sort": 1,
            "query": {"query": query, "refId": name}, **more}


def dashboard():
    return {
        "uid": "factord", "title": "factord", "tags": ["factord"], "schemaVersion": 39, "version": 1, "editable": True,
        "description": "Batched matrix factorization as a service. What the metrics mean: docs/operations.md.",
        "time": {"from": "now-1h", "to": "now"}, "refresh": "30s", "timezone": "browser", "graphTooltip": 1,
        "templating": {"list": [
            {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
            variable("job", "Job", "label_values(factord_build_info, job)"),
            variable("instance", "Instance", 'label_values(factord_build_info{job="$job"}, instance)', multi=True, includeAll=True,
                     allValue=".*", current={"text": "All", "value": "$__all"}),
        ]},
        "annotations": {"list": []},
        "panels": placed(),
    }


def text():
    return json.dumps(dashboard(), indent=1) + "\n"


if __name__ == "__main__":
    OUTPUT.write_text(text())
