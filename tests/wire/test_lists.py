"""The jobs list over plain HTTP: filters before paging and counting, page bounds, sort."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.wire.jobs import Jobs, answered, fresh, refused

PROJECT = "wire-lists"


@pytest.fixture(scope="module")
def seven(jobs: Jobs) -> list[str]:
    """Seven jobs of one project, oldest first; the third has failed, all others completed."""
    names = [fresh("list") for _ in range(7)]
    for number, name in enumerate(names):
        script = "exit 1" if number == 2 else "true"
        jobs.create(name, script, project=PROJECT, source="odd" if number % 2 else "even")
    for number, name in enumerate(names):
        jobs.wait(name, "error" if number == 2 else "completed")
    return names


def listed(jobs: Jobs, asked: dict[str, Any], **query: Any) -> dict[str, Any]:
    """The list of the project's jobs that match."""
    together = {"$and": [{"project": PROJECT}, asked]} if asked else {"project": PROJECT}
    return jobs.list(filter=json.dumps(together), **query)


def names_of(page: dict[str, Any]) -> list[str]:
    return [job["name"] for job in page["data"]]


class TestFilters:
    @pytest.mark.parametrize(
        ("asked", "numbers"),
        [
            ({"status": "completed"}, [6, 5, 4, 3, 1, 0]),
            ({"status": ["completed"]}, [6, 5, 4, 3, 1, 0]),
            ({"status": ["error", "cancelled"]}, [2]),
            ({"status": {"$in": ["error"]}}, [2]),
            ({"status": {"in": ["error"]}}, [2]),
            ({"status": {"$nin": ["completed"]}}, [2]),
            ({"status": {"$eq": "error"}, "source": "even"}, [2]),
            ({"status": "no-such-status"}, []),
            ({"status": []}, []),
            ({"source": {"$like": "EV"}}, [6, 4, 2, 0]),
            ({"source": {"$startsWith": "o"}}, [5, 3, 1]),
            ({"source": {"$endsWith": "n"}}, [6, 4, 2, 0]),
            ({"source": {"$contains": "dd"}}, [5, 3, 1]),
            ({"$or": [{"status": "error"}, {"source": "odd"}]}, [5, 3, 2, 1]),
            ({"$not": {"source": "odd"}}, [6, 4, 2, 0]),
            ({"workspace": "default", "source": "odd"}, [5, 3, 1]),
            ({"workspace": "another"}, []),
            ({"created_at": {"gte": "2020-01-01T00:00:00"}}, [6, 5, 4, 3, 2, 1, 0]),
            ({"created_at": {"$gte": "2020-01-01", "$lt": "2100-01-01T00:00:00Z"}}, [6, 5, 4, 3, 2, 1, 0]),
            ({"created_at": {"lte": "2020-01-01"}}, []),
            ({"updated_at": {"$gt": "2020-01-01T00:00:00+02:00"}}, [6, 5, 4, 3, 2, 1, 0]),
        ],
    )
    def test_rows_and_count_are_those_that_match(
        self, jobs: Jobs, seven: list[str], asked: dict[str, Any], numbers: list[int]
    ) -> None:
        page = listed(jobs, asked)
        assert names_of(page) == [seven[number] for number in numbers]
        assert page["pagination"]["total_results"] == len(numbers)

    def test_a1_a_list_means_one_of(self, jobs: Jobs, seven: list[str]) -> None:
        """The form that the client's `--filter.status` sends."""
        page = listed(jobs, {"status": ["error"]})
        assert (names_of(page), page["pagination"]["total_results"]) == ([seven[2]], 1)
        together = jobs.http.get(
            jobs.url(), params={"filter": json.dumps({"status": ["error"], "project": [PROJECT, "other"]})}
        )
        assert names_of(answered(together)) == [seven[2]]

    @pytest.mark.parametrize("operator", ["gte", "$gte"])
    def test_a6_times_compare_as_the_clients_help_promises(self, jobs: Jobs, seven: list[str], operator: str) -> None:
        assert len(names_of(listed(jobs, {"created_at": {operator: "2020-01-01T00:00:00"}}))) == 7
        assert names_of(listed(jobs, {"created_at": {operator: "2100-01-01T00:00:00"}})) == []

    def test_name_and_id(self, jobs: Jobs, seven: list[str]) -> None:
        identifier = jobs.job(seven[4])["id"]
        assert names_of(listed(jobs, {"name": seven[4]})) == [seven[4]]
        assert names_of(listed(jobs, {"id": identifier})) == [seven[4]]
        assert names_of(listed(jobs, {"name": {"$like": seven[4].upper()}})) == [seven[4]]
        assert names_of(listed(jobs, {"name": {"$in": seven[:2]}})) == [seven[1], seven[0]]

    def test_a_moment_divides_them(self, jobs: Jobs, seven: list[str]) -> None:
        moment = jobs.job(seven[3])["created_at"]
        assert names_of(listed(jobs, {"created_at": {"$gte": moment}})) == seven[:2:-1]
        assert names_of(listed(jobs, {"created_at": {"$lt": moment}})) == seven[2::-1]

    def test_the_filter_is_echoed_in_its_normal_form(self, jobs: Jobs) -> None:
        for given in ({"status": "error"}, {"status": {"eq": "error"}}):
            assert jobs.list(filter=json.dumps(given))["filter"] == {"status": {"$eq": "error"}}
        assert jobs.list(filter='{"status": ["a"]}')["filter"] == {"status": {"$in": ["a"]}}
        assert "filter" not in jobs.list()

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("{bad", "Invalid JSON in filter parameter: "),
            ("{}[", "Invalid JSON in filter parameter: "),
            ('{"colour": "red"}', "Unknown filter field 'colour'. Valid fields: ["),
            ('{"$or": [], "status": "error"}', "must stand alone"),
            ('{"status": {"$maybe": 1}}', "Unknown operator '$maybe'"),
            ('{"status": {"$in": "error"}}', "wants a list"),
            ('{"created_at": {"$gte": "yesterday"}}', "wants an ISO 8601 time"),
            ('status:"completed"', "Text filters are not supported yet. Give the filter as JSON"),
            ('{"$not": ' * 2000 + "{}" + "}" * 2000, "Invalid JSON in filter parameter: it is nested"),
            ('{"source": NaN}', "Invalid JSON in filter parameter: 'source' holds the number nan"),
            ('{"source": "\\ud800"}', "Invalid JSON in filter parameter: 'source' holds half of a surrogate pair"),
        ],
    )
    def test_a_filter_nobody_understands(self, jobs: Jobs, text: str, words: str) -> None:
        assert words in refused(jobs.get(filter=text), 400)

    @pytest.mark.parametrize("key", ["filter[status]", "filter[status][in]", "filter[]", "filter["])
    def test_a_bracket_filter_is_not_ignored(self, jobs: Jobs, key: str) -> None:
        text = refused(jobs.http.get(jobs.url(), params={key: "completed"}), 400)
        assert text.startswith(f"Filters of the form {key}=… are not supported yet for jobs. Give the filter as JSON")

    def test_one_filter_only(self, jobs: Jobs) -> None:
        twice = {"filter": ['{"status": "error"}', '{"source": "odd"}']}
        assert "more than once" in refused(jobs.http.get(jobs.url(), params=twice), 400)
        answered(jobs.get(filter=""))

    @pytest.mark.parametrize("value", ["null", "1", "true", '{"$gt": 1}', "[null]", "[[]]", "{}", '[{"a": 1}]'])
    def test_odd_values_never_break_the_server(self, jobs: Jobs, value: str) -> None:
        for field in ("status", "name", "project", "created_at"):
            answer = jobs.get(filter=f'{{"{field}": {value}}}')
            assert answer.status_code in (200, 400), answer.text


class TestPages:
    def test_a2_pages_are_full_and_their_totals_true(self, jobs: Jobs, seven: list[str]) -> None:
        found = []
        for number, size in ((1, 4), (2, 2), (3, 0)):
            page = listed(jobs, {"status": "completed"}, page=number, page_size=4)
            assert page["pagination"] == {
                "page": number,
                "page_size": 4,
                "current_page_size": size,
                "total_pages": 2,
                "total_results": 6,
            }
            found += names_of(page)
        assert found == [seven[number] for number in (6, 5, 4, 3, 1, 0)]

    def test_no_row_is_still_one_page(self, jobs: Jobs) -> None:
        pagination = jobs.list(filter='{"project": "nobody has this"}')["pagination"]
        assert (pagination["total_pages"], pagination["total_results"]) == (1, 0)

    @pytest.mark.parametrize(
        "query", [{"page": 0}, {"page": -1}, {"page": "x"}, {"page_size": 0}, {"sort": "name"}, {"sort": ""}]
    )
    def test_what_is_out_of_bounds(self, jobs: Jobs, query: dict[str, Any]) -> None:
        (problem,) = refused(jobs.get(**query), 422)
        assert problem["loc"] == ["query", next(iter(query))]

    def test_a_huge_page_is_cut_and_says_so(self, jobs: Jobs) -> None:
        assert jobs.list(page_size=100_000)["pagination"]["page_size"] == 1000
        assert jobs.list(page=10**12, page_size=1000)["data"] == []

    def test_sort(self, jobs: Jobs, seven: list[str]) -> None:
        assert names_of(listed(jobs, {}, sort="created_at")) == seven
        assert names_of(listed(jobs, {}, sort="-created_at")) == seven[::-1]
        assert [job["source"] for job in listed(jobs, {}, sort="source")["data"]] == ["even"] * 4 + ["odd"] * 3
        moved = [job["updated_at"] for job in listed(jobs, {}, sort="-updated_at")["data"]]
        assert moved == sorted(moved, reverse=True)
        assert jobs.list()["sort"] == "-created_at"

    def test_rows_have_no_nulls(self, jobs: Jobs, seven: list[str]) -> None:
        (row,) = listed(jobs, {"name": seven[0]})["data"]
        assert None not in row.values() and "description" not in row
        assert row == {key: value for key, value in jobs.job(seven[0]).items() if value is not None}
        for item in answered(jobs.get(seven[0], "steps"))["data"]:
            assert None not in item.values() and "artifact_base_path" not in item

    def test_all_workspaces(self, http: httpx.Client, seven: list[str]) -> None:
        page = Jobs(http, "-").list(filter=json.dumps({"project": PROJECT}))
        assert names_of(page) == seven[::-1]
