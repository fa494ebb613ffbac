from nothing import there
