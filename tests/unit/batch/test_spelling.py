"""Misspellings of names and paths: likely ones, and names that only look alike."""

from __future__ import annotations

import pytest
from tracline.batch.contents.spelling import contained, is_part, misspelt, misspelt_path, similar

MISSPELT = [
    ("cancel_reservatoin", "cancel_reservation"),
    ("cancelReservation", "cancel_reservation"),
    ("cancel-reservation", "cancel_reservation"),
    ("CANCEL_RESERVATION", "cancel_reservation"),
    ("get_orders", "get_order"),
    ("get_ordr", "get_order"),
    ("bussiness", "business"),
    ("order2_detials", "order2_details"),
    ("first_nam", "first_name"),
    ("größe", "Größe"),
]
DIFFERENT = [
    ("get_order_details", "get_user_details"),
    ("get_order_details", "get_order_detail_count"),
    ("refund", "issue_refund"),
    ("turn_on_data", "turn_off_data"),
    ("enable_roaming", "disable_roaming"),
    ("activate_line", "deactivate_line"),
    ("set_name", "get_name"),
    ("order_12", "order_13"),
    ("add", "and"),
    ("update_reservation_flights", "update_reservation_baggages"),
    ("", "a"),
    ("_", "-"),
]


@pytest.mark.parametrize(("name", "known"), MISSPELT)
def test_a_misspelling_names_the_known_name(name: str, known: str) -> None:
    """Few letters of a word differ, or the words are joined in another way."""
    assert misspelt(name, {known, "think"}) == known


@pytest.mark.parametrize(("name", "known"), DIFFERENT)
def test_a_name_that_only_looks_alike_is_no_misspelling(name: str, known: str) -> None:
    """Another word, another number and another short word are other names."""
    assert misspelt(name, {known}) is None
    assert misspelt(known, {name}) is None


def test_the_nearest_name_is_suggested() -> None:
    """Of several near names the most similar one counts, whatever their order."""
    for known in (["get_orders", "get_order"], ["get_order", "get_orders"]):
        assert misspelt("get_ordr", known) == "get_order"


def test_a_misspelt_path_names_its_beginning() -> None:
    """Each step counts by itself; an index stands for any element."""
    known = ["args.passengers[*].dob", "args.passengers[*].seat", 'args["odd key"].x']
    assert misspelt_path("args.pasengers", known) == "args.passengers"
    assert misspelt_path("args.passengers[0].seats", known) == "args.passengers[*].seat"
    assert misspelt_path('args["od key"].x', known) is None
    assert misspelt_path("args.passengers", known) is None
    assert misspelt_path("args.crew[*].dob", known) is None


def test_a_name_contained_in_one_other_name() -> None:
    """The words of one are among those of the other, in exactly one name."""
    assert contained("refund", ["issue_refund", "think"]) == "issue_refund"
    assert contained("mcp_shop_get_order", ["get_order"]) == "get_order"
    assert contained("refund", ["issue_refund", "create_refund"]) is None
    assert contained("refund", ["", "think"]) is None


@pytest.mark.parametrize(
    ("name", "known", "expected"),
    [
        ("birth_date", ["first_name", "last_name", "dob"], "dob"),
        ("dob", ["first_name", "birth_date"], "birth_date"),
        ("reservation", ["destination", "reservation_id", "user_id"], "reservation_id"),
        ("cabin_class", ["class_action", "cabin"], "cabin"),
        ("payments", ["passengers", "payment_methods"], "payment_methods"),
        ("qty", ["quit", "quantity"], "quantity"),
        ("zip_code", ["promo_code", "zip"], "zip"),
        ("state", ["stage_id", "status"], "status"),
        ("id", ["reservation_id", "cabin"], "reservation_id"),
        ("id", ["reservation_id", "user_id"], None),
        ("order_id", ["reservation_id"], None),
        ("insurance", ["cabin", "nights"], None),
    ],
)
def test_words_count_more_than_letters(name: str, known: list[str], expected: str | None) -> None:
    """A name with the words of the other comes before one with similar letters; an abbreviation, too."""
    assert similar(name, known) == expected
    assert similar(name, known[::-1]) == expected


def test_generic_words_alone_are_no_part() -> None:
    """All words of one name are in the other, and not only `id` or `name`."""
    assert is_part("reservation", "reservation_id")
    assert is_part("reservation_id", "reservation")
    assert not is_part("id", "reservation_id")
    assert not is_part("order_id", "reservation_id")
