//! A real one-node cluster and images that equal the ones of the Dockerfiles, without Docker.

pub mod cluster;
pub mod image;
pub mod preflight;
pub mod recipe;

mod tools;
