// SPDX-License-Identifier: Apache-2.0
//! Finds the installed library with pkg-config, and makes the declarations from its headers.
use std::{env, path::PathBuf};

fn main() {
    let library = pkg_config::Config::new()
        .atleast_version("0.1")
        .probe("ringfire")
        .expect("pkg-config finds no ringfire: install it, or set PKG_CONFIG_PATH");
    let folders = library.include_paths.iter().map(|path| format!("-I{}", path.display()));
    let out = PathBuf::from(env::var("OUT_DIR").unwrap()).join("ringfire.rs");
    bindgen::Builder::default()
        .header_contents("all.h", "#include <ringfire/ringfire.h>\n")
        .clang_args(folders)
        .allowlist_function("rf_.*")
        .allowlist_type("rf_.*")
        .allowlist_var("RF_.*")
        .default_enum_style(bindgen::EnumVariation::ModuleConsts)
        .generate_comments(false) // C comments are no Rust documentation: examples in them would be run
        .generate()
        .expect("bindgen cannot read ringfire/ringfire.h")
        .write_to_file(out)
        .expect("the declarations cannot be written");
}
