def test_stop():
    raise KeyboardInterrupt
