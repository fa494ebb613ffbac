//! The suite: what is tried from inside (`attack`), and the tests around it.

mod attack;
mod bombs;
mod files;
mod layers;
mod nested;
mod network;
mod ordinary_user;
mod reach;
mod walls;
mod world;
