"""Random expressions and properties, sound and broken. The vectors of Apache's filter were made from them, and they
test the compiler."""

from random import Random

NAMES = ("a", "b", "c", "A_1", "$x", "missing")
VALUES = (
    "5", "-3", "+7", "0", "-0", "2147483647", "2147483648", "-2147483649", "9223372036854775808",
    "5.0", "7.5", "1e3", "0x1p3", " 5", "5 ", "5_0", "٣", "𝟓", "5d", "NaN", "-NaN", "Infinity", "-0.0", "0.0",
    "true", "TRUE", "false", "abc", "it's", "ab", "", "x y", "三", "😀",
)  # fmt: skip
NUMBERS = (
    "0", "5", "7", "3L", "10l", "2147483647", "2147483648", "9223372036854775807",
    "1.5", "5.0", ".5", "7.", "1e3", "1E-3", "12345678.9", "0.0001", "4.9E-324", "1.7976931348623157e308",
)  # fmt: skip
LITERALS = (*NUMBERS, "'5'", "'abc'", "'it''s'", "''", "'true'", "'x y'", "'三'", "'😀'", "TRUE", "false", "NULL")
BROKEN_LITERALS = (
    "05", "0.0", "1e999", "9223372036854775808", "0L", "'open", '"x"', "a.b", "#", "5e", "é", "\U0001f600",
)  # fmt: skip
STRINGS = ("'a'", "'abc'", "''", "'it''s'", "'5'", "'三'", "'b'", "'\U0001f600'")
JUNK = (
    "", " ", "\t", "\n", "\r\n", "(", ")", ",", "+", "-", "=", "<>", "!=", "<", ">=", "NOT", "AND", "or", "BETWEEN",
    "IN", "IS", "null", "CONTAINS", "startswith", "'", "/*", "*/", "--", "-- x\n", "/* x */", ".", "/", "5", "a", "'s'",
    "+ (", "LIKE", "\x00",
)  # fmt: skip


def expression(random: Random) -> str:
    """Mostly valid in Apache's grammar, though the types may be refused."""
    text = _or(random, random.choice((0, 0, 1, 1, 2)))
    if random.random() < 0.15:
        place = random.randrange(len(text) + 1)
        text = text[:place] + random.choice(JUNK) + text[place + random.choice((0, 0, 1, 2)) :]
    if random.random() < 0.05:
        text = text[: random.randrange(len(text) + 1)]
    return text


def properties(random: Random) -> dict[str, str]:
    return {name: random.choice(VALUES) for name in NAMES[:-1] if random.random() < 0.75}


def _or(random: Random, depth: int) -> str:
    word = random.choice((" or ", " OR ", "\nOr\t"))
    return word.join(_and(random, depth) for _ in range(random.choice((1, 1, 1, 1, 2, 3))))


def _and(random: Random, depth: int) -> str:
    word = random.choice((" and ", " AND ", "/**/And "))
    return word.join(_condition(random, depth) for _ in range(random.choice((1, 1, 1, 2, 3))))


def _condition(random: Random, depth: int) -> str:
    operand = _operand(random, depth)
    shape = random.randrange(12)
    negated = random.choice(("", "NOT "))
    if shape < 4:
        return f"{operand} {random.choice(('=', '<>', '=', '<>'))} {_operand(random, depth)}"
    if shape < 7:
        return f"{operand} {random.choice(('<', '<=', '>', '>='))} {_ordered_operand(random, depth)}"
    if shape == 7:
        return f"{operand} IS {negated}NULL"
    if shape == 8:
        return f"{operand} {negated}BETWEEN {_ordered_operand(random, 0)} AND {_ordered_operand(random, 0)}"
    if shape == 9:
        count = random.choice((1, 2, 3, 4))  # with five or more, Apache's messages show no order
        return f"{operand} {negated}in ({', '.join(random.choice(STRINGS) for _ in range(count))})"
    if shape == 10:
        return f"{operand} {negated}{random.choice(('CONTAINS', 'STARTSWITH', 'EndsWith'))} {random.choice(STRINGS)}"
    return operand


def _ordered_operand(random: Random, depth: int) -> str:
    """An operand that an ordering usually accepts."""
    if random.random() < 0.2:
        return _operand(random, depth)
    return random.choice(("", "", "", "-", "+")) + random.choice((*NAMES, *NUMBERS))


def _operand(random: Random, depth: int) -> str:
    prefix = random.choice(("", "", "", "", "", "", "", "-", "+", "not ", "NOT NOT ", "- -"))
    kind = random.random()
    if kind < 0.6:
        return prefix + random.choice(NAMES)
    if kind < 0.8 or (depth == 0 and kind < 0.99):
        return prefix + random.choice(LITERALS)
    if kind < 0.81 or depth == 0:
        return prefix + random.choice(BROKEN_LITERALS)
    return f"{prefix}({_or(random, depth - 1)})"
