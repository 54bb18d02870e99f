//! One request after the other, its reason and its picture; and what goes wrong.

use serde_json::{Value, json};

use crate::browser::{DESK, Visit, run, run_at};

/// Goes through the requests, looks into a picture, saves, and makes a mistake.
const STEPS: &str = r##"
  const saved = [];
  URL.createObjectURL = blob => (saved.push(blob), "");
  HTMLAnchorElement.prototype.click = () => {};
  type("limits", "2/10s via sliding_log");
  type("second", "2/10s via sliding_window");
  type("script", "1s | 1\n2s | 1\n3s | 1\n25s | 1\n26s | 2");
  get("run").click();
  const at = () => ({ last: texts(".last"), now: texts(".now"), why: texts(".why"),
    words: get("step-at").textContent, slider: get("step").value,
    off: ["first", "back", "next", "present"].filter(id => get(id).disabled) });
  const found = { places: lanes().map(lane => lane.getBoundingClientRect())
    .map(({ left, top }) => [Math.round(left), Math.round(top)]), present: at() };
  get("first").click();
  found.first = at();
  get("next").click(); get("next").click();
  found.third = at();
  type("step", 4);
  found.fourth = at();
  get("back").click();
  found.back = at();
  // In the picture: lines where sub-buckets begin, and boxes for those that count.
  const lane = lanes()[1];
  const canvas = lane.querySelector("canvas");
  const { data, width, height } = canvas.getContext("2d")
    .getImageData(0, 0, canvas.width, canvas.height);
  const is = name => {
    const colour = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`);
    const rgb = colour.match(/[0-9a-f]{2}/g).map(digits => parseInt(digits, 16)).join();
    return (x, y) => data.slice(4 * (y * width + x), 4 * (y * width + x) + 3).join() === rgb;
  };
  const [isLine, isUsed] = [is("line"), is("admitted")];
  const count = (length, isThere) => Array.from({ length }, (_, n) => n).filter(isThere).length;
  const x = Math.round((15 / 34.5) * width);
  found.column = [count(80, y => isLine(x, y)), count(80, y => isLine(x + 4, y))];
  found.boxes = count(width, x => isLine(x, height - 18 - 10));
  const second = width / 34.5;
  found.used = count(width, x => isUsed(x, height - 18 - 6)) / second;
  found.picked = (canvas.dispatchEvent(new MouseEvent("click", { bubbles: true,
    clientX: canvas.getBoundingClientRect().left + (25 / 34.5) * width })), at());
  get("present").click();
  found.again = at();
  get("data").click();
  get("picture").click();
  await until(() => saved.length === 2);
  found.data = await saved[0].text();
  const picture = await createImageBitmap(saved[1]);
  found.picture = [saved[1].type, picture.width, picture.height];
  found.saved = get("saved").textContent;
  type("second", "");
  found.alone = texts("h3");
  setTimeout(() => { throw new Error("<b>wrong</b>"); });
  await until(() => get("trouble").textContent);
  found.trouble = get("trouble").textContent;
  found.marked = get("trouble").querySelectorAll("b").length;
  return found;
"##;

#[test]
fn requests_are_explained_one_by_one_drawn_and_saved() {
    let Some(found) = run(DESK, STEPS, &Value::Null) else { return };
    let is = |value: &Value, expect: Value| assert_eq!(*value, expect, "{found:#}");
    let places = found["places"].as_array().unwrap();
    assert!(places[0][1] == places[1][1] && places[0][0] != places[1][0], "{places:?}");
    // The last answer, and apart from it the state, which is much later.
    let present = &found["present"];
    is(&present["last"][0], json!("Last answer, at 26s: Denied."));
    is(&present["now"][0], json!("Now: 1 of 2 left, a retry is admitted in 5s, full again in 5s."));
    is(&present["off"], json!(["next", "present"]));
    is(
        &found["first"]["last"],
        json!(["Answer 1, at 1s: Admitted.", "Answer 1, at 1s: Admitted."]),
    );
    is(&found["first"]["off"], json!(["first", "back"]));
    is(&found["first"]["words"], json!("Request 1 of 5: at 1s, client a, cost 1: admitted by 2."));
    let third = json!([
        "2 of 2 used in the last 10s: 1 more fits at 11s, when that of 1s leaves.",
        "2 of 2 used in the sub-buckets from 0s to 4s: 1 more fits at 12s, when the one from 1s to \
         2s has left.",
    ]);
    is(&found["third"]["why"], third.clone());
    is(
        &found["third"]["now"][0],
        json!("Then: 0 of 2 left, a retry is admitted in 8s, full again in 9s."),
    );
    is(
        &found["fourth"]["words"],
        json!("Request 4 of 5: at 25s, client a, cost 1: admitted by 2."),
    );
    is(&found["back"], found["third"].clone());
    is(&found["picked"], found["fourth"].clone());
    is(&found["again"], present.clone());
    let (lines, beside) = (found["column"][0].as_u64().unwrap(), &found["column"][1]);
    assert!(lines >= 25 && beside.as_u64().unwrap() <= 2, "{found:#}");
    assert!(found["boxes"].as_u64().unwrap() >= 4, "{found:#}");
    // Two sub-buckets of a second have a unit.
    assert!((1.7..2.1).contains(&found["used"].as_f64().unwrap()), "{found:#}");
    let data: Vec<&str> = found["data"].as_str().unwrap().lines().collect();
    assert_eq!(data.len(), 11);
    let names = "limits,strategy,client,at_us,how,cost,allowed,granted,cut,remaining,retry_after_us,\
                 reset_after_us";
    assert_eq!(data[0], names);
    let row = "2/10s via sliding_log,sliding_log,a,3000000,check,1,false,0,0,0,8000000,9000000";
    assert_eq!(data[3], row);
    is(&found["picture"][0], json!("image/png"));
    assert_eq!(found["picture"][1], 2_000);
    is(&found["saved"], json!("Saved as tollgate.png."));
    is(&found["alone"], json!(["sliding_log"]));
    let trouble = found["trouble"].as_str().unwrap();
    assert!(trouble.starts_with("The page has failed: <b>wrong</b>. Reload it."), "{trouble}");
    assert_eq!(found["marked"], 0);
}

#[test]
fn a_browser_that_is_too_old_shows_why() {
    let script = r##"return { trouble: get("trouble").textContent, lanes: lanes().length };"##;
    let library = "delete window.DecompressionStream;";
    let visit = Visit { screen: DESK, address: "", library };
    let Some(found) = run_at(visit, script, &Value::Null) else { return };
    let trouble = found["trouble"].as_str().unwrap();
    assert!(trouble.starts_with("The engine cannot start in this browser: "), "{trouble}");
    assert!(trouble.contains("DecompressionStream"), "{trouble}");
}
