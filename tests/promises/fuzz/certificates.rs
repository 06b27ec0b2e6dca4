//! Certificates and requests for them.

use super::*;

// Material that anybody may submit to be signed or verified.

/// A DER value and its content.
enum Der {
    Whole(u8, Vec<u8>),
    /// With the byte before the inner values: the count of unused bits.
    Of(u8, Vec<u8>, Vec<Der>),
}

fn read_der(mut bytes: &[u8], depth: usize) -> Option<Vec<Der>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let (&tag, rest) = bytes.split_first()?;
        let (&short, rest) = rest.split_first()?;
        let (length, rest) = match short {
            0..=0x7f => (usize::from(short), rest),
            0x81..=0x84 => {
                let (long, rest) = rest.split_at_checked(usize::from(short - 0x80))?;
                (
                    long.iter()
                        .fold(0, |length, byte| length << 8 | usize::from(*byte)),
                    rest,
                )
            }
            _ => return None,
        };
        let (value, rest) = rest.split_at_checked(length)?;
        bytes = rest;
        let before = usize::from(tag == 3).min(value.len());
        let inner = (depth < 12 && (tag & 0x20 != 0 || matches!(tag, 3 | 4)))
            .then(|| read_der(&value[before..], depth + 1))
            .flatten();
        found.push(match inner {
            Some(inner) if !inner.is_empty() => Der::Of(tag, value[..before].to_vec(), inner),
            _ => Der::Whole(tag, value.to_vec()),
        });
    }
    Some(found)
}

fn write_der(values: &[Der], to: &mut Vec<u8>) {
    for value in values {
        let (tag, content) = match value {
            Der::Whole(tag, content) => (tag, content.clone()),
            Der::Of(tag, before, inner) => {
                let mut content = before.clone();
                write_der(inner, &mut content);
                (tag, content)
            }
        };
        to.push(*tag);
        match content.len() {
            length @ 0..=0x7f => to.push(length as u8),
            length => to.extend([&[0x83][..], &(length as u32).to_be_bytes()[1..]].concat()),
        }
        to.extend(content);
    }
}

fn nth<'d>(values: &'d mut Vec<Der>, at: &mut usize) -> Option<(&'d mut Vec<Der>, usize)> {
    for n in 0..values.len() {
        if *at == 0 {
            return Some((values, n));
        }
        *at -= 1;
        // The first borrow must end before the next begins, except for the returned one.
        let has = matches!(&values[n], Der::Of(_, _, inner) if count(inner) > *at);
        if has {
            let Der::Of(_, _, inner) = &mut values[n] else {
                return None;
            };
            return nth(inner, at);
        }
        if let Der::Of(_, _, inner) = &values[n] {
            *at -= count(inner);
        }
    }
    None
}

fn count(values: &[Der]) -> usize {
    values
        .iter()
        .map(|value| {
            if let Der::Of(_, _, inner) = value {
                1 + count(inner)
            } else {
                1
            }
        })
        .sum()
}

fn change_der(values: &mut Vec<Der>, rng: &mut Rng) {
    const TAGS: [u8; 14] = [
        1, 2, 3, 4, 5, 6, 0x0c, 0x13, 0x17, 0x18, 0x30, 0x31, 0xa0, 0xa3,
    ];
    let mut at = rng.below(count(values).max(1));
    let Some((among, n)) = nth(values, &mut at) else {
        return;
    };
    match rng.below(5) {
        0 => drop(among.remove(n)),
        1 => {
            let mut copy = Vec::new();
            write_der(&among[n..=n], &mut copy);
            among.extend(read_der(&copy, 0).unwrap_or_default());
        }
        2 => {
            let other = rng.below(among.len());
            among.swap(n, other);
        }
        3 => match &mut among[n] {
            Der::Whole(tag, _) | Der::Of(tag, ..) => *tag = *rng.pick(&TAGS),
        },
        _ => match &mut among[n] {
            Der::Whole(_, content) => change(content, rng),
            Der::Of(_, before, _) => change(before, rng),
        },
    }
}

#[test]
#[ignore = "endurance"]
fn certificates_and_their_requests() {
    pki::jwt::install();
    let samples = crate::pki::samples();
    target("certificates_and_their_requests", 500, |rng| {
        let mut values = read_der(rng.pick(samples).as_slice(), 0).unwrap();
        (0..1 + rng.below(5)).for_each(|_| change_der(&mut values, rng));
        let mut bytes = Vec::new();
        write_der(&values, &mut bytes);
        if rng.percent(30) {
            change(&mut bytes, rng);
        }
        crate::pki::read_every_way(&bytes);
    });
}
