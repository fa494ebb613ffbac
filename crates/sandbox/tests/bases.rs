//! Bases, through the front door: real archives, a registry on loopback, build programs that are strict scripts.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "bases/archives.rs"]
mod archives;
#[path = "bases/below.rs"]
mod below;
#[path = "bases/build.rs"]
mod build;
#[path = "bases/driver.rs"]
mod driver;
#[path = "bases/images.rs"]
mod images;
#[path = "bases/oci.rs"]
mod oci;
#[path = "bases/registry.rs"]
mod registry;
#[path = "bases/tar.rs"]
mod tar_base;
#[path = "bases/unpack.rs"]
mod unpack;
