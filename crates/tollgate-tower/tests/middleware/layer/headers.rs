//! The headers of a response.

use super::*;

/// An answer shows the limits that it was given under: those of its override, and those of its
/// revision, also when the policies are replaced before its response is there.
#[tokio::test]
async fn headers_show_the_limits_that_decided() {
    let text = |units: u64| {
        let limits = format!(
            "limits = [{{ subject = \"ip\", limit = \"{units}/h\", overrides = [{{ when = {{ \
             header.x-plan = \"pro\" }}, limit = \"{}/h\" }}] }}]",
            units * 10
        );
        policies(&policy(&limits))
    };
    let (gate, _) = gate(text(3));
    let layer = TollgateLayer::new(gate.clone()).unwrap();
    let (began, go_on) =
        (Arc::new(tokio::sync::Notify::new()), Arc::new(tokio::sync::Notify::new()));
    let waits = {
        let (began, go_on) = (Arc::clone(&began), Arc::clone(&go_on));
        get(async move || {
            began.notify_one();
            go_on.notified().await;
        })
    };
    let app = served(layer.clone()).route("/waits", waits.layer(layer));
    let shown = async |headers: &[(&str, &str)], path: &str| {
        let mut request = from("192.0.2.1", headers);
        *request.uri_mut() = path.parse().unwrap();
        send(&app, request).await.header("ratelimit-policy").unwrap().to_owned()
    };
    assert_eq!(shown(&[], "/").await, r#""p";q=3;w=3600"#);
    assert_eq!(shown(&[("x-plan", "pro")], "/").await, r#""p";q=30;w=3600"#);
    let meanwhile = async {
        began.notified().await;
        gate.replace(text(4));
        let new = shown(&[("x-plan", "pro")], "/").await;
        go_on.notify_one();
        new
    };
    let pro = [("x-plan", "pro")];
    let (old, new) = tokio::join!(shown(&pro, "/waits"), meanwhile);
    assert_eq!((old.as_str(), new.as_str()), (r#""p";q=30;w=3600"#, r#""p";q=40;w=3600"#));
}
