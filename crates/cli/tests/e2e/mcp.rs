//! `slipway mcp`: sessions as tools, over the real program's standard streams. The client here is written by hand, in lines of
//! JSON, so that it shares no mistake with the library that the program uses.

mod client;
mod ends;
mod npm;
mod restricted;
mod story;
mod wrong;
