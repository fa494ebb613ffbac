use Test::More tests => 3;

is(2 + 2, 4, 'doubles');
is(2 + 3, 4, 'adds up');
SKIP: {
    skip 'needs the network', 1;
    ok(0);
}
