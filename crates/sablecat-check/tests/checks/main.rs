//! All checks, each from where it begins by default, a few seeds of it.

#[path = "../command/mod.rs"]
mod command;

mod backward;
mod both_ends;
mod calls;
mod crash;
mod damage;
mod disk_size;
mod faults;
mod fuzz;
mod histories;
mod index;
mod kinds;
mod lies;
mod locks;
mod model;
mod operator;
mod order;
mod pressure;
mod steps;
mod storm;
mod temporary;
mod volumes;
