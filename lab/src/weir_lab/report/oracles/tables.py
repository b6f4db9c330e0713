"""The studies' tables, computed again by this package and compared with their recomputed values."""

from __future__ import annotations

import csv
from importlib import resources
from typing import TYPE_CHECKING

import numpy as np

from weir_lab.report.oracles.compared import Compared
from weir_lab.theory.factorial import FactorialAnalysis, analyse_factorial
from weir_lab.theory.laws import forced_flow_law, link_bound_rps, littles_law, response_time_law, utilization_law
from weir_lab.theory.queueing import (
    FiniteStation,
    Kind,
    OpenStation,
    Station,
    UnstableError,
    asymptotic_bounds,
    finite_source,
    mm1,
    mmm,
    solve_closed,
)
from weir_lab.theory.stats import expected_distance_if_uniform, placement_uniformity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["TABLES", "read_table"]

Row = dict[str, str]

# 15 digits are kept; the factorial tables need no more than sums, the queueing ones powers and logarithms.
_SUMS, _QUEUES = 1e-9, 1e-8


def read_table(name: str) -> list[Row]:
    """Rows of a table in ``data/``, by its name without suffix."""
    file = resources.files("weir_lab.report.oracles") / "data" / f"{name}.csv"
    with file.open(encoding="utf-8") as text:
        return list(csv.DictReader(text))


def _compare(row: Row, ours: dict[str, float], tolerance: float, what: str) -> Iterator[Compared]:
    """Every column that the row has a number in."""
    for column, value in ours.items():
        if row[column] != "":
            yield Compared(f"{what} {column}", value, float(row[column]), tolerance)


def _open_station(station: OpenStation) -> dict[str, float]:
    return {
        "rho": station.utilization,
        "prob_empty": station.prob_empty,
        "mean_jobs_in_system": station.mean_jobs_in_system,
        "var_jobs_in_system": station.var_jobs_in_system,
        "mean_jobs_in_queue": station.mean_jobs_in_queue,
        "var_jobs_in_queue": station.var_jobs_in_queue,
        "mean_response_time_s": station.mean_response_time_s,
        "var_response_time_s2": station.var_response_time_s2,
        "mean_waiting_time_s": station.mean_waiting_time_s,
        "var_waiting_time_s2": station.var_waiting_time_s2,
        "waiting_time_p90_s": station.waiting_time_quantile_s(0.90),
        "waiting_time_p95_s": station.waiting_time_quantile_s(0.95),
    }


def _refused(row: Row, make: Callable[[], OpenStation]) -> Compared:
    try:
        make()
    except UnstableError:
        return Compared(f"{_name(row)} refused", 1.0, 1.0, 0.0)
    return Compared(f"{_name(row)} refused", 0.0, 1.0, 0.0)


def _mm1() -> Iterator[Compared]:
    for row in read_table("recomputed_mm1"):
        arrival, service = float(row["arrival_rate_per_s"]), float(row["service_rate_per_s"])
        if row["stable"] != "true":
            yield _refused(row, lambda arrival=arrival, service=service: mm1(arrival, service))  # type: ignore[misc]
            continue
        station = mm1(arrival, service)
        quantiles = {f"response_time_p{p}_s": station.response_time_quantile_s(p / 100) for p in (50, 90, 95, 99)}
        yield from _compare(row, _open_station(station) | quantiles, _QUEUES, _name(row))


def _mmm() -> Iterator[Compared]:
    for row in read_table("recomputed_mmm"):
        arrival, service = float(row["arrival_rate_per_s"]), float(row["service_rate_per_server_per_s"])
        servers = int(row["servers_m"])
        if row["stable"] != "true":
            yield _refused(row, lambda a=arrival, s=service, m=servers: mmm(a, s, m))  # type: ignore[misc]
            continue
        station = mmm(arrival, service, servers)
        more = {
            "prob_queueing": station.prob_queueing,
            "waiting_time_p99_s": station.waiting_time_quantile_s(0.99),
        }
        yield from _compare(row, _open_station(station) | more, _QUEUES, _name(row))


def _closed_model() -> Iterator[Compared]:
    """By the finite-source model and by convolution, which share no code."""
    for row in read_table("recomputed_closed_model"):
        clients, servers = int(row["total_clients"]), int(row["servers_m"])
        service, think = float(row["service_time_ms"]) / 1e3, float(row["delay_ms"]) / 1e3
        stations = [Station("workers", service, servers=servers), Station("delay", think, kind=Kind.DELAY)]
        bound = asymptotic_bounds(stations, clients).throughput_high_per_s
        direct: FiniteStation = finite_source(clients, think, 1.0 / service, servers)
        network = solve_closed(stations, clients)
        for x, jobs in (
            (direct.throughput_per_s, direct.mean_jobs_in_system),
            (float(network.throughput_per_s[-1]), float(network.jobs[0, -1])),
        ):
            ours = {
                "predicted_throughput_ops_s": x,
                "predicted_response_time_ms": 1e3 * jobs / x,
                "predicted_jobs_at_station": jobs,
                "predicted_utilization": x * service / servers,
                "asymptotic_bound_ops_s": bound,
                "deviation_percent": 100.0 * (x / float(row["observed_throughput_ops_s"]) - 1.0),
            }
            yield from _compare(row, ours, _QUEUES, _name(row))


def _network_of_queues() -> Iterator[Compared]:
    for row in read_table("recomputed_network_of_queues"):
        system, station = float(row["throughput_system_ops_s"]), float(row["throughput_server_ops_s"])
        servers = int(row["middlewares"]) * int(row["worker_threads_per_middleware"])
        service = float(row["service_time_ms"]) / 1e3
        busy = utilization_law(station, service, 0.0, servers).expected
        ours = {
            "forced_flow_gap_percent": 100.0 * forced_flow_law(system, 1.0, station).deviation,
            "visit_ratio_one_worker": 1.0 / servers,
            "throughput_one_worker_ops_s": station / servers,
            "service_demand_one_worker_ms": 1e3 * Station("worker", service, 1.0 / servers).demand_s,
            "utilization_from_server_throughput": busy,
            "utilization_from_system_throughput": utilization_law(system, service, 0.0, servers).expected,
            "busy_workers_from_system_throughput": littles_law(0.0, system, service).expected,
            "busy_workers_from_server_throughput": littles_law(0.0, station, service).expected,
            "capacity_all_workers_ops_s": servers / service,
        }
        yield from _compare(row, ours, _QUEUES, _name(row))
        yield Compared(f"{_name(row)} feasible", float(busy <= 1.0), float(row["utilization_feasible"] == "true"), 0.0)


def _interactive_law() -> Iterator[Compared]:
    for row in read_table("recomputed_interactive_law"):
        ours = {}
        if row["total_clients"] and row["throughput_ops_s"]:
            clients, x = float(row["total_clients"]), float(row["throughput_ops_s"])
            ours["n_over_x_ms"] = 1e3 * response_time_law(clients, x, 1.0).expected
            if row["response_time_ms"]:
                check = response_time_law(clients, x, float(row["response_time_ms"]) / 1e3)
                ours["response_time_minus_n_over_x_percent"] = 100.0 * check.deviation
        if row["throughput_ops_s"] and row["response_time_ms"]:
            x, r = float(row["throughput_ops_s"]), float(row["response_time_ms"]) / 1e3
            ours["jobs_x_times_r"] = littles_law(0.0, x, r).expected
        yield from _compare(row, ours, _QUEUES, _name(row))


def _full_system_little() -> Iterator[Compared]:
    published = {
        (row["study"], row["worker_threads"], row["quantity"]): float(row["value"])
        for row in read_table("max_throughput_full_system")
        if row["value"]
    }
    for row in read_table("recomputed_full_system_little"):
        key = (row["study"], row["worker_threads"])
        x = published[(*key, "throughput_middleware")]
        queue, backend = published[(*key, "time_in_queue")] / 1e3, published[(*key, "time_waiting_for_memcached")] / 1e3
        both = littles_law(published[(*key, "queue_length")], x, queue)
        half = littles_law(published[(*key, "queue_length")], x / 2.0, queue)
        ours = {
            "littles_law_both_middlewares": both.expected,
            "littles_law_per_middleware": half.expected,
            "published_minus_per_middleware_percent": 100.0 * half.deviation,
            "busy_workers": x * backend,
            "worker_utilization": utilization_law(x, backend, 0.0, 2 * int(row["worker_threads"])).expected,
        }
        yield from _compare(row, ours, _QUEUES, _name(row))


def _designs() -> dict[tuple[str, str, str], FactorialAnalysis]:
    """Every 2^k r table, analysed from its raw values."""
    rows = read_table("twok_r_observations")
    designs = {}
    for key in dict.fromkeys((row["study"], row["workload"], row["response"]) for row in rows):
        own = [row for row in rows if (row["study"], row["workload"], row["response"]) == key]
        cells = sorted({int(row["row"]) for row in own})
        levels = [next([int(r[x]) for x in ("x1", "x2", "x3")] for r in own if int(r["row"]) == cell) for cell in cells]
        values = [[float(r["value"]) for r in own if int(r["row"]) == cell] for cell in cells]
        designs[key] = analyse_factorial(levels, values, "ABC" if key[0] == "S3" else "XYZ")
    return designs


def _twok_r_effects() -> Iterator[Compared]:
    designs = _designs()
    for row in read_table("recomputed_twok_r_effects"):
        key = (row["study"], row["workload"], row["response"])
        if row["effect"] == "" or key not in designs:
            continue
        design = designs[key]
        effect = design[row["term"]]
        ours = {"effect": effect.effect, "sum_of_squares": effect.sum_of_squares}
        if effect.percent_of_variation is not None:
            ours["percent_of_sst"] = effect.percent_of_variation
        if effect.interval is not None:
            ninety = design.contrast({row["term"]: 1.0}, 0.90)
            ours |= {
                "sd_of_effect": effect.interval.standard_error,
                "ci90_low": ninety.low,
                "ci90_high": ninety.high,
                "ci95_low": effect.interval.low,
                "ci95_high": effect.interval.high,
            }
        yield from _compare(row, ours, _SUMS, _name(row))
        if row["significant_95"]:
            known = float(row["significant_95"] == "true")
            yield Compared(f"{_name(row)} significant", float(bool(effect.significant)), known, 0.0)


def _twok_r_summary() -> Iterator[Compared]:
    designs = _designs()
    for row in read_table("recomputed_twok_r_summary"):
        key = (row["study"], row["workload"], row["response"])
        if row["sse"] == "" or key not in designs:
            continue
        design = designs[key]
        ninety, ninety_five = design.contrast({"I": 1.0}, 0.90), design.contrast({"I": 1.0}, 0.95)
        ours = {
            "sse": design.sse,
            "sst": design.sst,
            "ssy": design.ssy,
            "ss0": design.ss0,
            "percent_error": design.percent_error,
            "dof": float(design.freedom),
            "sd_error": design.sd_error or 0.0,
            "sd_effect": design.sd_effect or 0.0,
            "half_width_90": ninety.high - ninety.value,
            "half_width_95": ninety_five.high - ninety_five.value,
            "r_squared": 1.0 - design.sse / design.sst,
        }
        yield from _compare(row, ours, _SUMS, _name(row))


def _twok_r_cells() -> Iterator[Compared]:
    designs = _designs()
    for row in read_table("recomputed_twok_r_cells"):
        design = designs.get((row["study"], row["workload"], row["response"]))
        if design is None or row["mean"] == "":
            continue
        cell = int(row["row"]) - 1
        values = design.predicted[cell] + design.residuals[cell]
        ours = {
            "mean": float(design.predicted[cell]),
            "sd": float(np.sqrt((design.residuals[cell] ** 2).sum() / (design.repetitions - 1))),
            "min": float(values.min()),
            "max": float(values.max()),
        }
        yield from _compare(row, ours, _SUMS, _name(row))


def _twok_r_little() -> Iterator[Compared]:
    for row in read_table("recomputed_twok_r_little"):
        if row["throughput_ops_s"] == "" or row["response_time_ms"] == "":
            continue
        x, r, clients = float(row["throughput_ops_s"]), float(row["response_time_ms"]), float(row["total_clients"])
        law = 1e3 * response_time_law(clients, x, r / 1e3).expected
        ours = {
            "n_over_x_ms": law,
            "gap_outside_middleware_ms": law - r,
            "jobs_in_middleware": littles_law(0.0, x, r / 1e3).expected,
        }
        yield from _compare(row, ours, _SUMS, _name(row))


def _bandwidth() -> Iterator[Compared]:
    for row in read_table("recomputed_bandwidth"):
        measured, nominal = float(row["measured_mbit_s"]) * 1e6, float(row["nominal_mbit_s"]) * 1e6
        ours = {
            "max_ops_s_measured_4096B": link_bound_rps(measured, 4096),
            "max_ops_s_nominal_4096B": link_bound_rps(nominal, 4096),
            "max_ops_s_nominal_4000B_as_published": link_bound_rps(nominal, 4000),
            "max_ops_s_measured_4150B": link_bound_rps(measured, 4150),
        }
        yield from _compare(row, ours, _SUMS, _name(row))


def _bandwidth_bounds() -> Iterator[Compared]:
    """Reads leave the servers and the proxies once; writes leave the clients once and the proxies once per server."""
    for row in read_table("recomputed_bandwidth_bounds"):
        machines, proxies, servers = (int(row[name]) for name in ("client_machines", "middlewares", "servers"))
        write = row["workload"] == "write"
        bounds = {}
        if write:
            bounds["client_uplinks_ops_s"] = link_bound_rps(201e6, 4096, machines)
        else:
            bounds["server_uplinks_ops_s"] = link_bound_rps(101e6, 4096, servers)
        if proxies:
            bounds["middleware_uplinks_ops_s"] = link_bound_rps(804e6, 4096, proxies, servers if write else 1)
        tightest = min(bounds.values())
        observed = 100.0 * float(row["best_observed_ops_s"]) / tightest
        yield from _compare(
            row, bounds | {"bound_ops_s": tightest, "observed_percent_of_bound": observed}, _SUMS, _name(row)
        )


def _hash_uniformity() -> Iterator[Compared]:
    for row in read_table("recomputed_hash_uniformity"):
        keys, servers = int(row["keys"]), int(row["servers"])
        ours = {"expected_distance_if_uniform": expected_distance_if_uniform(keys, servers, normal=True)}
        if row["study"] == "S3":
            test = placement_uniformity([int(count["keys"]) for count in read_table("s3_hash_counts")])
            ours |= {
                "statistical_distance": test.distance,
                "chi_square": test.chi_square,
                "dof": float(test.freedom),
                "p_value": test.p,
                "max_relative_deviation_percent": test.largest_deviation_percent,
            }
        yield from _compare(row, ours, _SUMS, _name(row))


def _overhead() -> Iterator[Compared]:
    for row in read_table("recomputed_overhead"):
        ratio = float(row["with_middleware"]) / float(row["baseline"])
        ours = {"ratio_percent": 100.0 * ratio, "change_percent": 100.0 * (ratio - 1.0)}
        yield from _compare(row, ours, _SUMS, _name(row))


def _breakdown_share() -> Iterator[Compared]:
    rows = read_table("recomputed_s1_breakdown_share")
    stages = [row for row in rows if row["stage"].startswith("t")]
    total = sum(float(row["mean_ms"]) for row in stages)
    for row in stages:
        yield from _compare(row, {"share_percent": 100.0 * float(row["mean_ms"]) / total}, _SUMS, _name(row))


def _implied_response_times() -> Iterator[Compared]:
    effects = {
        row["term"]: float(row["effect"])
        for row in read_table("twok_r_published_effects")
        if (row["study"], row["workload"], row["response"]) == ("S5", "read", "response_time") and row["effect"]
    }
    signs = {"X": "x1", "Y": "x2", "Z": "x3"}
    for row in read_table("recomputed_twok_r_s5_read_rt_implied"):
        mean = 0.0
        for term, effect in effects.items():
            product = 1
            for letter in term if term != "I" else "":
                product *= int(row[signs[letter]])
            mean += product * effect
        x = float(row["throughput_ops_s"])
        ours = {
            "mean_implied_by_effects": mean,
            "n192_over_x_ms": 1e3 * response_time_law(192, x, 1.0).expected,
            "jobs_in_middleware_by_little": littles_law(0.0, x, mean / 1e3).expected,
        }
        yield from _compare(row, ours, _SUMS, _name(row))


def _name(row: Row) -> str:
    parts = [
        row.get(column, "") for column in ("study", "location", "where", "what", "workload", "response", "term", "row")
    ]
    parts += [row.get(column, "") for column in ("worker_threads", "total_clients", "input_choice")]
    return " ".join(part for part in parts if part)


TABLES: dict[str, Callable[[], Iterator[Compared]]] = {
    "table recomputed_mm1": _mm1,
    "table recomputed_mmm": _mmm,
    "table recomputed_closed_model": _closed_model,
    "table recomputed_network_of_queues": _network_of_queues,
    "table recomputed_interactive_law": _interactive_law,
    "table recomputed_full_system_little": _full_system_little,
    "table recomputed_twok_r_cells": _twok_r_cells,
    "table recomputed_twok_r_effects": _twok_r_effects,
    "table recomputed_twok_r_summary": _twok_r_summary,
    "table recomputed_twok_r_little": _twok_r_little,
    "table recomputed_twok_r_s5_read_rt_implied": _implied_response_times,
    "table recomputed_bandwidth": _bandwidth,
    "table recomputed_bandwidth_bounds": _bandwidth_bounds,
    "table recomputed_hash_uniformity": _hash_uniformity,
    "table recomputed_overhead": _overhead,
    "table recomputed_s1_breakdown_share": _breakdown_share,
}
