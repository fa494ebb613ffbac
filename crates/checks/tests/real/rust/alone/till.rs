fn last(prices: &[i32]) -> i32 {
    prices[prices.len()]
}

fn main() {
    println!("{}", last(&[2, 3]));
}
