let c = 2;
bar()
