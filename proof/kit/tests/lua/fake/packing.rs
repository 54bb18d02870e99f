//! How the scripts pack numbers, and keep whole answers.

use std::cell::RefCell;
use std::rc::Rc;

use mlua::{Error, Lua, MultiValue, Result, Value};

/// Gives the scripts `struct` and `cmsgpack`.
pub(super) fn install(lua: &Lua) -> Result<()> {
    let packing = lua.create_table()?;
    packing.set("pack", lua.create_function(pack)?)?;
    packing.set("unpack", lua.create_function(unpack)?)?;
    lua.globals().set("struct", packing)?;
    // Packed values come back; their form is Redis's affair.
    let kept: Rc<RefCell<Vec<Vec<Value>>>> = Rc::default();
    let shared = Rc::clone(&kept);
    let messages = lua.create_table()?;
    messages.set(
        "pack",
        lua.create_function(move |_, list: Vec<Value>| {
            shared.borrow_mut().push(list);
            Ok(format!("{:08}", shared.borrow().len() - 1))
        })?,
    )?;
    messages.set(
        "unpack",
        // A small number after it is one more value.
        lua.create_function(move |_, packed: mlua::String| {
            let packed = packed.as_bytes();
            let (number, more) = packed.split_at(8);
            let number: usize = std::str::from_utf8(number).unwrap().parse().unwrap();
            assert!(more.len() <= 1, "{more:?}");
            Ok((kept.borrow()[number].clone(), more.first().copied()))
        })?,
    )?;
    lua.globals().set("cmsgpack", messages)
}

/// The letters of a format, each with its width.
fn formats(format: &str) -> impl Iterator<Item = (char, usize)> {
    let mut rest = format.strip_prefix('>').expect("big endian");
    std::iter::from_fn(move || {
        let letter = rest.chars().next()?;
        rest = &rest[letter.len_utf8()..];
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let width = rest[..digits].parse().unwrap_or(0);
        rest = &rest[digits..];
        Some((letter, width))
    })
}

fn pack(lua: &Lua, args: MultiValue) -> Result<mlua::String> {
    let mut args = args.into_iter();
    let Some(Value::String(format)) = args.next() else { return Err(Error::runtime("format")) };
    let mut bytes = Vec::new();
    for (letter, width) in formats(&format.to_str()?) {
        let value = args.next().ok_or_else(|| Error::runtime("too few values"))?;
        match (letter, value) {
            ('c', Value::String(text)) => {
                assert_eq!(text.as_bytes().len(), width);
                bytes.extend_from_slice(&text.as_bytes());
            }
            ('I', value) => {
                let number = match value {
                    Value::Integer(number) => number as f64,
                    Value::Number(number) => number,
                    other => return Err(Error::runtime(format!("{other:?} is not a number"))),
                };
                let fits = number >= 0.0
                    && number.fract() == 0.0
                    && number < 2f64.powi(i32::try_from(8 * width).unwrap())
                    && number < 2f64.powi(53);
                if !fits {
                    return Err(Error::runtime(format!("{number} does not fit {width} bytes")));
                }
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // as shown
                bytes.extend_from_slice(&(number as u64).to_be_bytes()[8 - width..]);
            }
            ('i', value) => {
                assert_eq!(width, 8);
                let number = match value {
                    Value::Integer(number) => number as f64,
                    Value::Number(number) => number,
                    // Lua takes digits for the number that they are.
                    Value::String(text) => text.to_str()?.parse().map_err(Error::runtime)?,
                    other => return Err(Error::runtime(format!("{other:?} is not a number"))),
                };
                if number.fract() != 0.0 || number.abs() >= 2f64.powi(53) {
                    return Err(Error::runtime(format!("{number} is not whole")));
                }
                #[allow(clippy::cast_possible_truncation)] // as shown
                bytes.extend_from_slice(&(number as i64).to_be_bytes());
            }
            (letter, value) => return Err(Error::runtime(format!("{letter} of {value:?}"))),
        }
    }
    lua.create_string(&bytes)
}

fn unpack(lua: &Lua, args: MultiValue) -> Result<MultiValue> {
    let mut args = args.into_iter();
    let (Some(Value::String(format)), Some(Value::String(bytes))) = (args.next(), args.next())
    else {
        return Err(Error::runtime("bad argument to unpack"));
    };
    let mut from = match args.next() {
        Some(Value::Integer(from)) => usize::try_from(from).unwrap() - 1,
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a position
        Some(Value::Number(from)) => from as usize - 1,
        _ => 0,
    };
    let bytes = bytes.as_bytes();
    let mut values = Vec::new();
    for (letter, width) in formats(&format.to_str()?) {
        let Some(part) = bytes.get(from..from + width) else {
            return Err(Error::runtime("data string too short"));
        };
        from += width;
        values.push(match letter {
            'c' => Value::String(lua.create_string(part)?),
            _ => {
                let number = part.iter().fold(0_u64, |n, byte| n << 8 | u64::from(*byte));
                #[allow(clippy::cast_precision_loss)] // Lua has doubles
                Value::Number(number as f64)
            }
        });
    }
    values.push(Value::Integer(i64::try_from(from).unwrap() + 1));
    Ok(MultiValue::from_vec(values))
}
