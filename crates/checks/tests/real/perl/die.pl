use strict;
use warnings;

sub add {
    my ($first, $second) = @_;
    my $sum = $first + $second;
    die "the till is closed";
}

add(1, undef);
