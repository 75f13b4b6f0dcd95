"""The viewer: what it shows, what it escapes, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from builders_monitor import group, record
from videorl.algo.advantage import advantages
from videorl.cli.main import run as command
from videorl.monitor.charts import chart_of
from videorl.monitor.console import RunConsole
from videorl.monitor.monitor import Monitor
from videorl.monitor.run_files import RunFiles, groups_of
from videorl.monitor.viewer import make_site

CONFIG = '[model]\npath = "m"\n[data]\ntrain = ["d.parquet"]\nmedia_root = "videos"\n[trainer]\ntoken_budget = 40000\n'


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of two steps as its own monitor writes it."""
    from rich.console import Console

    (tmp_path / "config.toml").write_text(CONFIG)
    (tmp_path / "status.json").write_text('{"state": "running", "step": 2, "version": 2, "max_steps": 20}')
    (tmp_path / "videos").mkdir()
    (tmp_path / "videos" / "clip.mp4").write_bytes(bytes(range(100)))
    with Monitor(tmp_path, advantages, RunConsole("off", None, 0, Console()), []) as monitor:
        for step in (1, 2):
            monitor.groups(step, step - 1, [group(), group()])
            monitor.step(record(step, **{"reward/accuracy": step / 4}))
        monitor.event("question_dropped", 2, detail="<script>alert(1)</script>")
    return tmp_path


@pytest.fixture
def client(run: Path) -> TestClient:
    return TestClient(make_site(RunFiles.open(run)), base_url="http://127.0.0.1")


def rewrite(path: Path, line: int, **changes: object) -> None:
    lines = path.read_text().splitlines()
    lines[line] = json.dumps(json.loads(lines[line]) | changes)
    path.write_text("\n".join(lines) + "\n")


def test_the_first_page_shows_state_charts_events_and_steps(client: TestClient) -> None:
    page = client.get("/").text
    assert "running, fit step 2 of 20, version 2" in page
    assert page.count("<polyline") == 3
    assert '<a href="/step/2">' in page
    assert "question_dropped" in page


def test_a_step_shows_every_response_with_its_worth(client: TestClient) -> None:
    page = client.get("/step/2").text
    assert page.count("it is\nB") == 2
    assert "forbidden_token: token 7" in page
    assert "<video>What passes?" not in page
    assert "&lt;video&gt;What passes?" in page
    assert client.get("/step/9").status_code == 404
    assert client.get("/step/2?page=x").status_code == 400


def test_what_models_and_data_wrote_is_text_and_no_script_runs(client: TestClient) -> None:
    answer = client.get("/")
    assert "<script>alert" not in answer.text
    assert "&lt;script&gt;alert" in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_a_video_under_the_media_root_is_shown_in_parts(run: Path, client: TestClient) -> None:
    rewrite(run / "rollouts" / "step-000001.jsonl", 0, media=[str(run / "videos" / "clip.mp4")])
    part = client.get("/media/1/0/0", headers={"Range": "bytes=10-19"})
    assert (part.status_code, part.content) == (206, bytes(range(10, 20)))
    assert '<video controls preload="metadata" src="/media/1/0/0">' in client.get("/step/1").text


def test_no_path_leaves_the_media_root(run: Path, client: TestClient) -> None:
    (run / "secret.txt").write_text("secret")
    (run / "videos" / "link.mp4").symlink_to(run / "secret.txt")
    outside = [
        run / "secret.txt",
        run / "videos" / ".." / "secret.txt",
        run / "videos" / "link.mp4",
        Path("/etc/passwd"),
    ]
    rewrite(run / "rollouts" / "step-000001.jsonl", 0, media=[str(path) for path in outside])
    for index in range(len(outside)):
        assert client.get(f"/media/1/0/{index}").status_code == 404
    assert client.get("/media/1/0/9").status_code == 404
    assert client.get("/media/1/99/0").status_code == 404
    assert client.get("/static/../../viewer.py").status_code == 404


def test_another_host_name_is_refused(run: Path) -> None:
    client = TestClient(make_site(RunFiles.open(run)), base_url="http://attacker.example")
    assert client.get("/").status_code == 400


def test_a_line_that_is_being_written_is_left_out(run: Path, client: TestClient) -> None:
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"step": 3, "rew')
    assert client.get("/").status_code == 200
    assert len(RunFiles.open(run).metrics()) == 2


def test_a_run_without_any_step_has_a_page(run: Path) -> None:
    for name in ("metrics.jsonl", "events.jsonl", "status.json"):
        (run / name).unlink()
    page = TestClient(make_site(RunFiles.open(run)), base_url="http://127.0.0.1").get("/")
    assert page.status_code == 200
    assert "No fit step is done yet." in page.text


def test_a_folder_without_a_run_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["view", str(tmp_path)]) == 2
    assert "not a run directory" in capsys.readouterr().err


def test_charts_stay_within_their_frame() -> None:
    chart = chart_of([{"step": 1, "x": 2.0}, {"step": 2, "x": None}, {"step": 3, "x": 4.0}], "x")
    assert chart is not None
    assert chart.points == "0.0,90.0 300.0,0.0"
    assert (chart.low, chart.high, chart.last) == (2.0, 4.0, 4.0)
    assert chart_of([{"step": 1}], "x") is None


def test_neighbouring_responses_of_a_question_are_a_group() -> None:
    rollouts = [{"question": q, "epoch": e} for q, e in (("a", 0), ("a", 0), ("b", 0), ("a", 1))]
    assert [(g.question, g.first_line, len(g.responses)) for g in groups_of(rollouts)] == [
        ("a", 0, 2),
        ("b", 2, 1),
        ("a", 3, 1),
    ]


@pytest.mark.parametrize(
    "changes",
    [
        {"score": "high", "advantage": [1], "versions": 3},
        {"media": 5},
        {"media": [7]},
        {"media": ["\0"]},
        {"media": ["x" * 300]},
        {"media": ["circle.mp4"]},
    ],
)
def test_a_response_whose_fields_are_of_other_types_is_shown_as_far_as_it_goes(
    changes: dict[str, object], run: Path, client: TestClient
) -> None:
    (run / "videos" / "circle.mp4").symlink_to("circle.mp4")
    if changes.get("media") == ["circle.mp4"]:
        changes = {"media": [str(run / "videos" / "circle.mp4")]}
    rewrite(run / "rollouts" / "step-000002.jsonl", 0, **changes)
    assert client.get("/step/2").status_code == 200
    assert client.get("/media/2/0/0").status_code == 404


def test_metrics_of_other_types_leave_the_other_charts(run: Path, client: TestClient) -> None:
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"reward/mean": 1}\n{"step": "x", "reward/mean": 1}\n{"step": 3, "reward/mean": "much"}\n')
        file.write('{"step": 3, "reward/mean": 1e999}\n' + "[" * 100_000 + "\n")
    assert client.get("/").text.count("<polyline") == 3


@pytest.mark.parametrize("place", ["/step/" + "9" * 300, "/media/" + "9" * 300 + "/0/0"])
def test_a_step_that_no_file_can_be_named_after_is_not_found(place: str, client: TestClient) -> None:
    assert client.get(place).status_code == 404


def test_a_page_number_of_many_digits_is_a_bad_request(client: TestClient) -> None:
    assert client.get("/step/2?page=" + "9" * 5_000).status_code == 400
