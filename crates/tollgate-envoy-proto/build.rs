//! Compiles the `.proto` files, in this process: no `protoc` is needed.

use std::path::PathBuf;

use prost::Message as _;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let services =
        ["envoy/service/ratelimit/v3/rls.proto", "kuadrant/service/ratelimit/v1/kuadrantrls.proto"];
    let files = protox::compile(services, ["proto"])?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("descriptor_set.bin"), files.encode_to_vec())?;
    let builder = tonic_prost_build::configure().build_transport(false);
    builder.codec_path("crate::codec::ShortCodec").compile_fds(files)?;
    Ok(())
}
