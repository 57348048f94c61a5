"""Resource quantities: properties of all quantities."""

import contextlib
from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pykubelet.api.quantity import (
    MAX_INT64,
    MIN_INT64,
    Format,
    Quantity,
    QuantityError,
    add,
    cmp,
    parse_int64,
    parse_quantity,
    quantity_from_json,
    quantity_to_json,
    sub,
)

DIGITS = st.one_of(st.integers(0, 2000), st.integers(0, 10**20)).map(str)
NUMBERS = st.one_of(
    st.builds("{}{}".format, st.sampled_from(["", "-", "+"]), DIGITS),
    st.builds("{}{}.{}".format, st.sampled_from(["", "-"]), DIGITS, DIGITS),
)
SUFFIXES = st.sampled_from(["", "n", "u", "m", "k", "M", "G", "T", "P", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"])
EXPONENTS = st.integers(-30, 30).map(lambda exponent: f"e{exponent}")
TEXTS = st.builds(str.__add__, NUMBERS, st.one_of(SUFFIXES, EXPONENTS))
QUANTITIES = TEXTS.map(parse_quantity)
laws = settings(max_examples=200, deadline=None)


def exact(quantity: Quantity) -> Fraction:
    return Fraction(quantity.unscaled) * Fraction(10) ** quantity.scale


def is_writable(quantity: Quantity) -> bool:
    """Whether a suffix is large enough; as upstream, there is none above a thousand exa."""
    return quantity.format == Format.DECIMAL_EXPONENT or abs(exact(quantity)) < 10**21


@laws
@given(QUANTITIES)
def test_canonical_form_is_idempotent(quantity: Quantity) -> None:
    if is_writable(quantity):
        assert str(parse_quantity(str(quantity))) == str(quantity)


@laws
@given(QUANTITIES)
def test_canonical_form_keeps_the_number(quantity: Quantity) -> None:
    """Also when the quantity was computed, not parsed from text."""
    computed = Quantity(quantity.unscaled, quantity.scale, quantity.format)
    if is_writable(quantity):
        assert parse_quantity(str(computed)) == quantity
        assert quantity_from_json(quantity_to_json(computed)) == quantity


@laws
@given(QUANTITIES, QUANTITIES)
def test_add_and_sub_are_exact_and_inverse(a: Quantity, b: Quantity) -> None:
    assert exact(add(a, b)) == exact(a) + exact(b)
    assert exact(sub(a, b)) == exact(a) - exact(b)
    assert sub(add(a, b), b) == a
    assert add(a, b).format == (a.format if a.sign() else b.format)


@laws
@given(QUANTITIES, QUANTITIES, QUANTITIES)
def test_order_is_total_and_that_of_the_numbers(a: Quantity, b: Quantity, c: Quantity) -> None:
    """Any two quantities compare as their numbers do, and equal quantities have equal hashes."""
    assert cmp(a, b) == (exact(a) > exact(b)) - (exact(a) < exact(b)) == -cmp(b, a)
    by_cmp = (cmp(a, b) < 0, cmp(a, b) <= 0, cmp(a, b) == 0, cmp(a, b) > 0, cmp(a, b) >= 0)
    assert (a < b, a <= b, a == b, a > b, a >= b) == by_cmp
    low, _, high = sorted((a, b, c))
    assert cmp(low, high) <= 0
    assert hash(sub(add(a, b), b)) == hash(a)


@laws
@given(QUANTITIES)
def test_values_are_rounded_away_from_zero_and_held_in_64_bits(quantity: Quantity) -> None:
    """value() and milli_value() round away from zero and saturate at the limits of 64 bits."""
    for got, number in ((quantity.value(), exact(quantity)), (quantity.milli_value(), exact(quantity) * 1000)):
        outwards = -(-number // 1) if number > 0 else number // 1
        assert got == max(MIN_INT64, min(MAX_INT64, outwards))


@laws
@given(st.text(alphabet="0123456789.+-eEinumkKMGTP x", max_size=12))
def test_parse_quantity_gives_a_quantity_or_a_quantity_error(text: str) -> None:
    with contextlib.suppress(QuantityError):
        assert str(parse_quantity(text))


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("1000E", "1"),
        ("1e4294967299", "1e4294967299"),
        ("1e-2000000000", "1e-9"),
        ("1e2000000000", "100e1999999998"),
        ("0" * 5000 + "1k", "0" * 5000 + "1k"),
        (".000000000001Ki", "2n"),
        ("-.001Ki", "-1024m"),
        ("16Ei", "9223372036854775807"),
    ],
)
def test_parse_quantity_stays_exact_at_the_edges(text: str, canonical: str) -> None:
    assert str(parse_quantity(text)) == canonical


@pytest.mark.parametrize("text", ["e-10", "9" * 4001, "." + "9" * 4001])
def test_parse_quantity_refuses_numbers_it_cannot_hold(text: str) -> None:
    with pytest.raises(QuantityError, match="numeric part"):
        parse_quantity(text)


@pytest.mark.parametrize("far", ["1e2000000000", "-1e2000000000"])
def test_arithmetic_stays_cheap_when_exponents_are_far_apart(far: str) -> None:
    """A hostile exponent costs neither time nor memory: the sum is the larger number."""
    huge, small = parse_quantity(far), parse_quantity("1500Ki")
    assert add(huge, small) == add(small, huge) == huge
    assert cmp(huge, small) == huge.sign()
    assert str(add(small, huge)).lstrip("-") == "100"  # the suffix is lost, as upstream loses it
    assert huge.value() in {MIN_INT64, MAX_INT64}


def test_sum_is_exact_unless_it_needs_too_many_digits() -> None:
    """Then it is the larger operand: otherwise a short text could cost any time and memory."""
    assert add(Quantity(1, 3000), Quantity(2, 3000)) == Quantity(3, 3000)
    assert add(Quantity(1, 3998), Quantity(1, 0)) == Quantity(10**3998 + 1, 0)
    assert add(Quantity(1, 4000), Quantity(1, 0)) == Quantity(1, 4000)
    assert add(Quantity(1, 0), Quantity(2, 4000)) == Quantity(2, 4000)
    assert add(Quantity(1, 3000), Quantity(1, -3000)) == Quantity(1, 3000)


def test_sum_with_a_null_is_written_as_the_other() -> None:
    """Null is zero without a format of its own."""
    null = quantity_from_json("null")
    assert (str(null), null.format, str(add(null, parse_quantity("2Ki")))) == ("0", Format.NONE, "2Ki")
    assert str(Quantity(5, 3)) == "5e3"
    assert null != "0"


@laws
@given(st.one_of(st.integers(-(2**65), 2**65).map(str), st.text(alphabet="+-0123456789 _", max_size=25)))
@example(str(MIN_INT64))
@example(str(MAX_INT64))
@example(str(MIN_INT64 - 1))
@example(str(MAX_INT64 + 1))
def test_parse_int64_reads_what_go_reads(text: str) -> None:
    """A sign and digits within 64 bits; other forms that Python's int() accepts are rejected."""
    plain = text.lstrip("+-")
    valid = plain.isdigit() and len(text) - len(plain) <= 1
    expected = int(text) if valid and MIN_INT64 <= int(text) <= MAX_INT64 else None
    assert parse_int64(text) == expected
