from rmqserver.metrics.broker_families import COUNTER, GAUGE, Family, LabelledValue, render


def test_a_family_as_prometheus_reads_it() -> None:
    families = [
        Family("in_total", COUNTER, "Messages stored", [LabelledValue({"topic": "T"}, 7), LabelledValue({}, 1.5)]),
        Family("empty", GAUGE, "Of nobody", []),
    ]
    assert "".join(render(families, {"cluster": "C"})) == (
        "# HELP in_total Messages stored\n"
        "# TYPE in_total counter\n"
        'in_total{cluster="C",topic="T"} 7\n'
        'in_total{cluster="C"} 1.5\n'
        "# HELP empty Of nobody\n"
        "# TYPE empty gauge\n"
    )


def test_what_would_end_a_label_is_escaped() -> None:
    family = Family("f", GAUGE, "h", [LabelledValue({"name": 'a"b\\c\nd'}, 0)])
    assert "".join(render([family], {})).splitlines()[-1] == r'f{name="a\"b\\c\nd"} 0'
