use Test::More tests => 6;

is(3, 5, 'adds up');
ok(1, 'fine # really');
SKIP: { skip 'later', 1; ok(0) }
TODO: { local $TODO = 'some day'; ok(0, 'not yet') }
subtest change => sub { plan tests => 2; ok(1, 'coins'); ok(0, 'notes') };
is_deeply({ a => [1, 2] }, { a => [1, 3] }, 'deep');
