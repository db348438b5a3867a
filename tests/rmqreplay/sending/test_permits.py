from rmqreplay.sending.permits import Denied, Entered, Granted, PermitBook, Wait


class Seconds:
    """A monotonic clock that the test moves, in seconds like permits."""

    def __init__(self) -> None:
        self.now = 50.0

    def __call__(self) -> float:
        return self.now


def a_book(clock: Seconds, *, recovering: bool = False, rate: float | None = None) -> PermitBook:
    book = PermitBook(clock, settle_s=3.0, ttl_s=2.0, rate=rate)
    book.open_wave(0, recovering=recovering)
    return book


def test_a_second_attempt_waits_for_the_permits_of_the_first_and_must_look():
    clock = Seconds()
    book = a_book(clock)
    assert book.enter(0, 0, 7) == Entered(must_look=False)
    assert isinstance(book.ask(0, 0, 7, 10, 100), Granted)
    clock.now += 1
    assert book.enter(0, 0, 8) == Wait(4.0)
    assert isinstance(book.ask(0, 0, 7, 10, 100), Denied), "overtaken"
    clock.now += 4
    assert book.enter(0, 0, 8) == Entered(must_look=True)
    assert isinstance(book.enter(0, 0, 7), Denied)


def test_more_time_is_for_the_attempt_that_holds_the_permit_and_puts_off_the_next_one():
    clock = Seconds()
    book = a_book(clock, rate=1.0)
    book.enter(0, 0, 7)
    assert isinstance(book.extend(0, 0, 7), Denied), "nothing was granted"
    book.ask(0, 0, 7, 1, 100)
    clock.now += 5
    assert book.extend(0, 0, 7) == Granted(0, 2.0), "no matter what the rate has left"
    assert book.enter(0, 0, 8) == Wait(5.0)
    assert isinstance(book.extend(0, 0, 7), Denied)
    assert isinstance(book.extend(0, 1, 1), Denied)
    assert isinstance(book.extend(1, 0, 8), Denied)


def test_an_attempt_after_one_that_never_held_a_permit_need_not_look():
    book = a_book(Seconds())
    book.enter(0, 0, 7)
    assert book.enter(0, 0, 8) == Entered(must_look=False)


def test_a_new_driver_lets_nobody_in_before_the_old_permits_have_ended():
    clock = Seconds()
    book = a_book(clock, recovering=True)
    assert book.enter(0, 0, 1) == Wait(5.0)
    assert isinstance(book.ask(0, 0, 1, 1, 1), Wait), "waiting does not let one ask"
    clock.now += 5
    assert book.enter(0, 0, 1) == Entered(must_look=True)


def test_tasks_of_another_wave_get_nothing():
    book = a_book(Seconds())
    book.enter(0, 0, 1)
    book.close_wave()
    assert isinstance(book.ask(0, 0, 1, 1, 1), Denied)
    book.open_wave(1, recovering=False)
    assert isinstance(book.ask(0, 0, 1, 1, 1), Denied)
    assert isinstance(book.enter(0, 0, 1), Denied)


def test_the_rate_is_that_of_all_tasks_together_and_has_no_burst():
    clock = Seconds()
    book = a_book(clock, rate=100.0)
    for partition in range(4):
        book.enter(0, partition, partition)
    granted = [0] * 5
    for tick in range(5000):
        clock.now = 50.0 + tick / 1000
        answer = book.ask(0, tick % 4, tick % 4, 32, 1000)
        if isinstance(answer, Granted):
            granted[tick // 1000] += answer.count
    assert all(80 <= count <= 125 for count in granted), granted
    assert 480 <= sum(granted) <= 525


def test_a_pause_holds_everybody_and_a_new_rate_lets_them_go():
    clock = Seconds()
    book = a_book(clock, rate=10.0)
    book.enter(0, 0, 0)
    book.set_rate(0)
    assert isinstance(book.ask(0, 0, 0, 1, 1), Wait)
    book.set_rate(None)
    assert book.ask(0, 0, 0, 1000, 1) == Granted(1000, 2.0)


def test_a_debt_of_a_fast_rate_is_no_pause_at_a_slow_one():
    """A job that was slowed from 100,000 to 100 messages a second used to stand still for minutes."""
    clock = Seconds()
    book = a_book(clock, rate=100_000.0)
    book.enter(0, 0, 1)
    assert isinstance(book.ask(0, 0, 1, 50_000, 0), Granted)
    book.set_rate(100.0)
    answer = book.ask(0, 0, 1, 10, 0)
    assert isinstance(answer, Wait)
    assert answer.seconds <= 0.2
    clock.now += answer.seconds
    assert book.ask(0, 0, 1, 10, 0) == Granted(10, 2.0)
