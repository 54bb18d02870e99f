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
    // What the service answers, for reflection. It asks the others.
    let asked =
        ["envoy/service/discovery/v3/ads.proto", "ratelimit/config/ratelimit/v3/rls_conf.proto"];
    let out = std::path::PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("descriptor_set.bin"), files.encode_to_vec())?;
    let builder = tonic_prost_build::configure().build_transport(false);
    let files = protox::compile(services.iter().chain(&asked), ["proto"])?;
    builder.codec_path("crate::proto::codec::ShortCodec").compile_fds(files)?;
    Ok(())
}
