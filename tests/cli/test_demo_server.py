"""sampler-audit demo-server from the command line to the exit code."""

import signal
import socket
import subprocess
import sys
from urllib.request import urlopen

import pytest

from sampler_audit.__main__ import main


def test_it_prints_its_url_serves_and_ends_quietly_on_ctrl_c() -> None:
    """Exit code 130, and not a word on stderr."""
    command = [sys.executable, "-m", "sampler_audit", "demo-server", "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        url = line.split()[2].rstrip(";")
        with urlopen(f"{url}/health") as reply:
            assert reply.status == 200
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert line == f"serving at {url}; Ctrl-C ends it\n"
    assert (process.returncode, out, err) == (130, "", "")


@pytest.mark.parametrize(
    ("options", "code", "told"),
    [
        (["--defect", "nonsense"], 2, "unknown defect 'nonsense'; known: weakest-dropped, "),
        (["--defect", "noise-24-bit"], 2, "it changes one draw in millions; plant it in 'local'"),
        (["--defect", "bonus-unfiltered"], 2, "add --speculative"),
        (["--when", "top_k"], 2, "give --defect NAME too"),
        (["--defect", "fixed-seed", "--when", "x"], 2, "--when: unknown filter or stage 'x'"),
        (["--noise", "-1"], 2, "expected a number from 0 to 10, got '-1'"),
        (["--engine-style", "tgi"], 2, "'tgi' is not one of vllm, llama, openai20"),
        (["--host", "192.0.2.1"], 3, "cannot listen on 192.0.2.1 port 8000: "),
    ],
)
def test_what_cannot_be_served_is_one_line(
    capsys: pytest.CaptureFixture[str], options: list[str], code: int, told: str
) -> None:
    """The command line's fault ends 2, the machine's 3."""
    assert main(["demo-server", *options]) == code
    err = capsys.readouterr().err
    assert told in err
    assert err.count("\n") == 1


def test_a_taken_port_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """It needs the machine to find out, so it ends 3."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["demo-server", "--port", str(port)]) == 3
    assert capsys.readouterr().err == (
        f"sampler-audit: cannot listen on 127.0.0.1 port {port}: Address already in use; choose"
        " another --port (0 is a free one) or --host\n"
    )
