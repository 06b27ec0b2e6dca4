//! The figures of one model, and the table of several models.

use std::fmt;

/// A figure with its floor of the same run and its goal.
#[derive(Clone)]
pub struct Figure {
    pub name: String,
    pub value: Value,
    floor: String,
    goal: Option<(String, bool)>,
    /// Whether it must not grow with the model.
    flat: bool,
    /// For the plot: a name, and the median latency in microseconds, if it is not the figure
    /// itself.
    pub latency: Option<(String, f64)>,
}

#[derive(Clone, Copy)]
pub enum Value {
    Microseconds(f64),
    Bytes(f64),
    Times(f64),
    Count(f64),
}

impl Value {
    fn number(self) -> f64 {
        match self {
            Self::Microseconds(value)
            | Self::Bytes(value)
            | Self::Times(value)
            | Self::Count(value) => value,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = match *self {
            Self::Microseconds(value) if value < 1e3 => (value, " us"),
            Self::Microseconds(value) if value < 1e6 => (value / 1e3, " ms"),
            Self::Microseconds(value) => (value / 1e6, " s"),
            Self::Bytes(value) if value < 1e6 => (value, " B"),
            Self::Bytes(value) => (value / f64::from(1 << 20), " MiB"),
            Self::Times(value) => (value, "x"),
            Self::Count(value) => return write!(f, "{value:.0}"),
        };
        let decimals = if value < 10.0 {
            2
        } else {
            usize::from(value < 100.0)
        };
        write!(f, "{value:.decimals$}{unit}")
    }
}

impl Figure {
    pub fn new(name: impl Into<String>, value: Value) -> Self {
        Self {
            name: name.into(),
            value,
            floor: String::new(),
            goal: None,
            flat: false,
            latency: None,
        }
    }

    /// Sets the floor.
    pub fn floor(self, what: &str, value: Value) -> Self {
        Self {
            floor: format!("{what}: {value}"),
            ..self
        }
    }

    /// Sets a floor measured in alternation, and the ratio to it.
    pub fn beside(self, what: &str, floor: Value, times: f64) -> Self {
        Self {
            floor: format!("{what}: {floor}, {}", Value::Times(times)),
            ..self
        }
    }

    /// Sets an upper bound as the goal.
    pub fn at_most(self, goal: Value) -> Self {
        let met = self.value.number() <= goal.number();
        Self {
            goal: Some((goal.to_string(), met)),
            ..self
        }
    }

    /// Sets a goal as text.
    pub fn goal(self, words: impl Into<String>, met: bool) -> Self {
        Self {
            goal: Some((words.into(), met)),
            ..self
        }
    }

    /// The figure must not grow with the model.
    pub fn flat(self) -> Self {
        Self { flat: true, ..self }
    }

    /// Adds the figure to the plot under its own name, with this median in microseconds.
    pub fn latency(self, what: impl Into<String>, median: f64) -> Self {
        Self {
            latency: Some((what.into(), median)),
            ..self
        }
    }
}

/// The figures of one model, in the order of the table.
#[derive(Clone)]
pub struct Sheet {
    pub name: &'static str,
    pub identities: usize,
    pub figures: Vec<Figure>,
}

impl Sheet {
    /// Adds a figure, or replaces an earlier measurement of it, and prints it at once, because a
    /// run takes minutes.
    pub fn add(&mut self, figure: Figure) {
        let goal = figure
            .goal
            .as_ref()
            .map(|(goal, met)| format!("goal {goal}, {}", if *met { "met" } else { "missed" }));
        eprintln!(
            "{:>3}  {:<72}{:>10}  {}  {}",
            self.name,
            figure.name,
            figure.value.to_string(),
            figure.floor,
            goal.unwrap_or_default()
        );
        match self
            .figures
            .iter_mut()
            .find(|known| known.name == figure.name)
        {
            Some(known) => *known = figure,
            None => self.figures.push(figure),
        }
    }

    fn find(&self, name: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.name == name)
    }
}

/// The table as Markdown: a column per model, floor and goal of the largest model, and the ratio of
/// the largest to the smallest.
pub fn table(sheets: &[Sheet]) -> String {
    const FLAT: f64 = 1.2;
    let (Some(smallest), Some(largest)) = (sheets.first(), sheets.last()) else {
        return String::new();
    };
    let columns =
        |text: fn(&Sheet) -> String| sheets.iter().map(text).collect::<Vec<_>>().join(" | ");
    let (first, last) = (smallest.name, largest.name);
    let mut table = format!(
        "| | {} | floor at {last} | goal at {last} | | {last} : {first} |\n",
        columns(|sheet| sheet.name.to_owned())
    );
    table += &format!(
        "|---|{}|---|---|---|---|\n",
        columns(|_| "---".into()).replace(' ', "")
    );
    for figure in &largest.figures {
        let values: Vec<String> = sheets
            .iter()
            .map(|sheet| {
                sheet
                    .find(&figure.name)
                    .map(|found| found.value.to_string())
                    .unwrap_or_default()
            })
            .collect();
        let (goal, met) = figure
            .goal
            .clone()
            .map_or_else(Default::default, |(goal, met)| {
                (goal, if met { "met" } else { "missed" })
            });
        let grown = smallest
            .find(&figure.name)
            .filter(|_| figure.flat)
            .map(|small| figure.value.number() / small.value.number());
        let grown = grown.map_or(String::new(), |grown| {
            format!(
                "{grown:.2} {}",
                if grown <= FLAT { "met" } else { "missed" }
            )
        });
        table += &format!(
            "| {} | {} | {} | {goal} | {met} | {grown} |\n",
            figure.name,
            values.join(" | "),
            figure.floor
        );
    }
    table
}
