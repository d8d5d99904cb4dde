"""Header, table and notes."""

from dataclasses import replace

from sampler_audit.reports import summary
from sampler_audit.results import AuditReport, CellResult, TargetReport


def note(target: TargetReport, label: str) -> str:
    """One note of a target."""
    return dict(summary.notes(target)).get(label, "")


def test_a_combination_without_draws_has_no_statistics(builtin: TargetReport) -> None:
    """A target that only masks."""
    row = summary.combo_row(replace(builtin.combos[0], n_draws=0, dof=0), builtin)
    assert row == ("none", "1", "-", "-", "-", "-", "-", "-", "-", "PASS")


def test_the_header_states_versions_size_and_gate(failing: AuditReport) -> None:
    """Cells, draws, seconds, alpha, seed."""
    header = dict(summary.header(failing, failing.targets[1]))
    assert header["engine"] == "vllm 0.32.0 (torch 2.13.0, triton 3.9.0)"
    assert header["plan"] == "combos all, rows core: 9 cells, 18,000 draws, 12 s"
    assert "alpha 0.0001" in header["gate"]
    assert "seed 7" in header["gate"]


def test_a_combination_that_fails_as_known_says_so(vllm: TargetReport) -> None:
    """Its one failing cell is a known fault."""
    known = replace(vllm.cells[-1], known="seen (link)")
    assert summary.combo_label(vllm.combos[-1], vllm) == "FAIL"
    excused = replace(vllm, cells=(*vllm.cells[:-1], known))
    assert summary.combo_label(vllm.combos[-1], excused) == "KNOWN"


def test_band_cells_are_counted_and_explained(builtin: TargetReport) -> None:
    """One of nine."""
    assert note(builtin, "kept sets") == "8 exact; 1 band"
    assert note(builtin, "band").startswith("1 cell, as dense-normal@2048/top_p=0.5/batch=alone")
    assert "both answers are right" in note(builtin, "band")


def test_ungated_cells_are_counted_and_explained(builtin: TargetReport) -> None:
    """A row with NaN and no policy."""
    cell = builtin.cells[0]
    assert cell.kept is not None
    ungated = replace(cell, kept=replace(cell.kept, verdict="UNGATED"))
    assert "1 not judged" in note(replace(builtin, cells=(ungated,)), "kept sets")


def test_cells_that_were_not_tried_are_counted_by_reason(builtin: TargetReport) -> None:
    """Two with the same reason."""
    refused = CellResult(
        cell="a", combo=(), row_kind="a", outcome="not_applicable", reason="temperature above 2"
    )
    target = replace(builtin, cells=(*builtin.cells, refused, replace(refused, cell="b")))
    assert note(target, "n/a") == "2 cells: temperature above 2"


def test_conventions_name_what_would_fit(builtin: TargetReport) -> None:
    """Declared or not; a target without kept sets has none."""
    declared = replace(builtin, fitting_conventions=("sampler-audit",))
    assert note(declared, "conventions").endswith("sampler-audit, as declared, fits every kept set")
    other = replace(builtin, fitting_conventions=("huggingface",))
    assert note(other, "conventions").endswith("; huggingface would")
    unseen = replace(builtin, cells=(replace(builtin.cells[0], kept=None, histogram=None),))
    assert note(unseen, "conventions") == ""
    assert note(unseen, "histograms") == ""


def test_known_faults_are_printed_and_so_is_their_end(builtin: TargetReport) -> None:
    """They do not count, but they are seen."""
    target = replace(builtin, known=("vllm:a: seen (link)",), known_gone=("vllm:b: fixed (link)",))
    assert note(target, "known") == "vllm:a: seen (link)"
    assert note(target, "known, gone") == "vllm:b: fixed (link)"
