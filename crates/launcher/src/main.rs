//! The launcher's entry: everything is in [`launcher::monitor`].

fn main() {
    std::process::exit(launcher::monitor::main());
}
