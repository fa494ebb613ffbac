//! What people see in a terminal. Data is printed to standard output; everything else is talk, on standard error.

pub(crate) mod approval;
pub(crate) mod budget;
pub(crate) mod live;
pub(crate) mod log;
pub(crate) mod memory;
pub(crate) mod plan;
pub(crate) mod print;
pub(crate) mod style;
pub(crate) mod summary;
pub(crate) mod table;
pub(crate) mod terminal;
pub(crate) mod text;
