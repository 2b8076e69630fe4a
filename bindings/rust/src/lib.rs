// SPDX-License-Identifier: Apache-2.0
//! The C API of Ringfire, as it is: see the comments of its headers. `examples/linear.rs` wraps as
//! much of it as one training takes.
#![allow(non_camel_case_types, non_upper_case_globals, non_snake_case)]
include!(concat!(env!("OUT_DIR"), "/ringfire.rs"));
