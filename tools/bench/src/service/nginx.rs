//! nginx with a page: alone, with its own limits, and with the service's.

use std::path::Path;

use anyhow::Result;
use tollgate_testbed::free_port;

use super::loaders::Wrk;
use super::program::{Program, Tollgate};
use super::turns::{RowJson, Turns};

/// nginx with a page: alone, with its own limits, and with the service's.
pub(super) fn behind_nginx(
    tollgate: &Tollgate,
    turns: &Turns,
    wrk: &Wrk,
    dir: &Path,
) -> Result<Vec<RowJson>> {
    let ours = tollgate.serve(&["--config", &policies(dir)?])?;
    let port = free_port().port();
    std::fs::write(dir.join("page"), "ok\n")?;
    let conf = dir.join("nginx.conf");
    std::fs::write(&conf, nginx_conf(dir, port, &ours.address))?;
    let conf = conf.display().to_string();
    let prefix = dir.display().to_string();
    let nginx = ["-p", &prefix, "-c", &conf, "-e", "stderr", "-g", "daemon off;"];
    let nginx = Program::start("nginx".into(), &nginx, port)?;
    let sides = [("alone", "/alone"), ("limit_req", "/own"), ("tollgate, /v1/auth", "/asked")];
    let sides = sides
        .into_iter()
        .map(|(what, path)| wrk.side(&format!("nginx, {what}"), &nginx.url(path), None))
        .collect();
    turns.take(sides, None)
}

/// A policy under which nothing is denied.
fn policies(dir: &Path) -> Result<String> {
    let path = dir.join("policies.toml");
    let text = "version = 1\n[[policies]]\nname = \"pages\"\non_failure = \"allow\"\n\
                limits = [{ subject = \"ip\", limit = \"1000000000/h via gcra\" }]\n";
    std::fs::write(&path, text)?;
    Ok(path.display().to_string())
}

fn nginx_conf(dir: &Path, port: u16, address: &str) -> String {
    let dir = dir.display();
    format!(
        "worker_processes 1;\nmaster_process off;\npid {dir}/nginx.pid;\nevents {{ worker_connections 1024; }}\n\
         http {{\n  access_log off;\n  client_body_temp_path {dir}/body;\n\
         proxy_temp_path {dir}/proxy;\n  fastcgi_temp_path {dir}/fastcgi;\n\
         uwsgi_temp_path {dir}/uwsgi;\n  scgi_temp_path {dir}/scgi;\n\
         limit_req_zone $binary_remote_addr zone=own:10m rate=1000000r/s;\n\
         upstream tollgate {{ server {address}; keepalive 64; }}\n\
         server {{\n    listen 127.0.0.1:{port};\n\
         root {dir};\n         location = /alone {{ try_files /page =404; }}\n\
         location = /own {{ limit_req zone=own burst=1000000 nodelay; try_files /page =404; }}\n\
         location = /asked {{ auth_request /_limits; try_files /page =404; }}\n\
         location = /_limits {{\n      internal;\n      proxy_pass http://tollgate/v1/auth;\n\
         proxy_http_version 1.1;\n      proxy_set_header Connection \"\";\n\
         proxy_pass_request_body off;\n      proxy_set_header Content-Length \"\";\n\
         proxy_set_header X-Original-URI $request_uri;\n\
         proxy_set_header X-Original-Method $request_method;\n\
         proxy_set_header X-Forwarded-For $remote_addr;\n    }}\n  }}\n}}\n"
    )
}
