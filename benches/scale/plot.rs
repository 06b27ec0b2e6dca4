//! Latency against the number of identities, as an SVG with logarithmic axes.

use std::fmt::Write;

use super::sheet::Sheet;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 440.0;
const LEFT: f64 = 70.0;
/// The width for the names.
const RIGHT: f64 = 400.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;
/// The least distance between two names.
const LINE: f64 = 15.0;
/// The colours of the lines; further lines are dashed as well.
const COLOURS: [&str; 8] = [
    "#1b6ca8", "#c0392b", "#1e8449", "#8e44ad", "#e67e22", "#17becf", "#5d6d7e", "#d81b60",
];
const DASHES: [&str; 3] = ["none", "7 4", "2 3"];

struct Series<'s> {
    name: &'s str,
    /// Identities and microseconds.
    points: Vec<(f64, f64)>,
}

/// The plot of all figures that have a latency.
pub fn svg(sheets: &[Sheet]) -> String {
    let all = series(sheets);
    let xs = all
        .iter()
        .flat_map(|one| one.points.iter().map(|point| point.0));
    let ys = || {
        all.iter()
            .flat_map(|one| one.points.iter().map(|point| point.1))
    };
    let (x0, x1) = xs.fold((f64::MAX, f64::MIN), |(low, high), x| {
        (low.min(x.log10()), high.max(x.log10()))
    });
    let (y0, y1) = (
        ys().fold(f64::MAX, f64::min).log10().floor(),
        ys().fold(f64::MIN, f64::max).log10().ceil(),
    );
    let x = |value: f64| {
        LEFT + (value.log10() - x0) / (x1 - x0).max(f64::EPSILON) * (WIDTH - LEFT - RIGHT)
    };
    let y = |value: f64| {
        HEIGHT
            - BOTTOM
            - (value.log10() - y0) / (y1 - y0).max(f64::EPSILON) * (HEIGHT - TOP - BOTTOM)
    };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let mut text = |at: (f64, f64), anchor: &str, colour: &str, words: &str| {
        let _ = writeln!(
            svg,
            "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"{anchor}\" fill=\"{colour}\">{words}</text>",
            at.0, at.1
        );
    };
    for power in y0 as i32..=y1 as i32 {
        let value = 10_f64.powi(power);
        text(
            (LEFT - 8.0, y(value) + 4.0),
            "end",
            "black",
            &if power < 3 {
                format!("{value} us")
            } else {
                format!("{} ms", value / 1e3)
            },
        );
    }
    for sheet in sheets {
        text(
            (x(sheet.identities as f64), HEIGHT - BOTTOM + 20.0),
            "middle",
            "black",
            &grouped(sheet.identities),
        );
    }
    text(
        ((LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 12.0),
        "middle",
        "black",
        "identities",
    );
    text(
        (LEFT - 60.0, TOP - 20.0),
        "start",
        "black",
        "what a client waits, median",
    );
    // Names are at the height of the last point; names that would overlap are moved apart.
    let mut names: Vec<(f64, usize)> = all
        .iter()
        .enumerate()
        .filter_map(|(n, one)| Some((y(one.points.last()?.1) + 4.0, n)))
        .collect();
    names.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (mut lowest, mut samples) = (f64::MIN, Vec::new());
    for (height, n) in names {
        lowest = height.max(lowest + LINE);
        text(
            (WIDTH - RIGHT + 40.0, lowest),
            "start",
            COLOURS[n % COLOURS.len()],
            all[n].name,
        );
        samples.push((lowest - 4.0, n));
    }
    for (height, n) in samples {
        let (start, end) = (WIDTH - RIGHT + 8.0, WIDTH - RIGHT + 34.0);
        let _ = writeln!(
            svg,
            "<path d=\"M{start:.1} {height:.1}H{end:.1}\" {}/>",
            stroke(n)
        );
    }
    for power in y0 as i32..=y1 as i32 {
        let height = y(10_f64.powi(power));
        let _ = writeln!(
            svg,
            "<path d=\"M{LEFT} {height:.1}H{:.1}\" stroke=\"#ddd\"/>",
            WIDTH - RIGHT
        );
    }
    for (n, one) in all.iter().enumerate() {
        let points: Vec<String> = one
            .points
            .iter()
            .map(|point| format!("{:.1},{:.1}", x(point.0), y(point.1)))
            .collect();
        let colour = COLOURS[n % COLOURS.len()];
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" {}/>",
            points.join(" "),
            stroke(n)
        );
        for point in &one.points {
            let _ = writeln!(
                svg,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{colour}\"/>",
                x(point.0),
                y(point.1)
            );
        }
    }
    svg + "</svg>\n"
}

/// The stroke of a line by its number.
fn stroke(n: usize) -> String {
    let (colour, dashes) = (
        COLOURS[n % COLOURS.len()],
        DASHES[n / COLOURS.len() % DASHES.len()],
    );
    format!("stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dashes}\"")
}

fn series(sheets: &[Sheet]) -> Vec<Series<'_>> {
    let Some(last) = sheets.last() else {
        return Vec::new();
    };
    let of = |name: &str| {
        let points = sheets.iter().filter_map(|sheet| {
            let figure = sheet.figures.iter().find(|figure| figure.name == name)?;
            Some((sheet.identities as f64, figure.latency.as_ref()?.1))
        });
        points.collect()
    };
    let plotted = last
        .figures
        .iter()
        .filter_map(|figure| Some((&figure.latency.as_ref()?.0, &figure.name)));
    plotted
        .map(|(name, figure)| Series {
            name,
            points: of(figure),
        })
        .collect()
}

/// A number with separated thousands.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .filter_map(|group| std::str::from_utf8(group).ok())
        .collect();
    groups.join(",")
}
