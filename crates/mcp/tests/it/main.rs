//! The client against real servers: in this process over pipes and over HTTP with a strict sign-in, programs on this machine,
//! and, in the slow tier, servers that others wrote.

mod access;
mod http;
mod others;
mod pipes;
mod programs;
mod shop;
