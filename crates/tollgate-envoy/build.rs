//! Compiles the `.proto` files, in this process: no `protoc` is needed.

#[cfg(not(feature = "proto"))]
fn main() {}

#[cfg(feature = "proto")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use prost::Message as _;

    println!("cargo:rerun-if-changed=proto");
    let services =
        ["envoy/service/ratelimit/v3/rls.proto", "kuadrant/service/ratelimit/v1/kuadrantrls.proto"];
    let files = protox::compile(services, ["proto"])?;
    let out = std::path::PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("descriptor_set.bin"), files.encode_to_vec())?;
    let builder = tonic_prost_build::configure().build_transport(false);
    builder.codec_path("crate::proto::codec::ShortCodec").compile_fds(files)?;
    Ok(())
}
