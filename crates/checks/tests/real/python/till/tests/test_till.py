import pytest

from till import Basket, parse, total


@pytest.fixture
def broken():
    raise RuntimeError("no database here")


@pytest.fixture
def late():
    yield 1
    raise RuntimeError("could not clean up")


def test_total():
    assert total([2, 3]) == 5


def test_total_with_reason():
    assert total([7]) == 7, "a basket of one"


def test_list():
    assert [1, 2, 3, 4] == [1, 2, 4, 4]


def test_text():
    want = "first line\nsecond line\n"
    got = "first line\nsecond lime\n"
    print("captured text")
    assert got == want


def test_dict():
    assert {"a": 1, "b": 2} == {"a": 1, "b": 3}


def test_exception():
    parse("x")


def test_nested():
    Basket([]).cheapest()


@pytest.mark.parametrize("text,number", [("1", 1), ("2", 3), ("a b - c", 4)])
def test_parse(text, number):
    assert parse(text) == number


def test_needs_fixture(broken):
    pass


def test_teardown(late):
    assert late == 1


def test_raises():
    with pytest.raises(ValueError):
        parse("1")


@pytest.mark.skip(reason="needs the network")
def test_online():
    pass


@pytest.mark.xfail
def test_known():
    assert False


@pytest.mark.xfail(strict=True)
def test_known_but_passes():
    pass


class TestBasket:
    def test_items(self):
        assert Basket([3]).items == [3]

    def test_truth(self):
        assert not Basket([3]).items

    def test_membership(self):
        assert 4 in Basket([3]).items


def test_fail():
    pytest.fail("said so")


def test_fine():
    assert parse("3") == 3
