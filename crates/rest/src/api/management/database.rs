//! Operations on the data file: copy, check and repair.

use maintenance::{State, Work};
use model::{
    clock::Timestamp,
    error::{Error, Result},
};
use schemars::JsonSchema;
use serde::Serialize;
use store::Report;

use crate::{
    answer::{Accepted, Answer, Data, Reply},
    call::Call,
    envelope::{Envelope, Meta, Pagination},
    openapi::operation::{AnswerShape, JSON, Operation, Schemas},
    permission::Permission::Admin,
    route::Routes,
};

/// The rows of these operations.
pub(crate) fn routes(routes: Routes) -> Routes {
    routes
        .post("/database/snapshot", Admin, snapshot)
        .without_time_limit()
        .summary("Copies the data file to a new file beside it, at most once a minute.")
        .post("/database/check-data-integrity", Admin, check)
        .summary("Starts a check of the data file; data-integrity-results shows its findings.")
        .post("/database/fix-data-integrity", Admin.session_only(), fix)
        .summary(
            "Copies the data file, then checks it and repairs what can be repaired without loss.",
        )
        .get(
            "/database/data-integrity-results",
            Admin.session_only(),
            results,
        )
        .summary("The findings of the last check, or the progress of the running one.")
}

/// A completed snapshot.
#[derive(Serialize, JsonSchema)]
pub(crate) struct DatabaseSnapshotDetails {
    /// Its path on the host of the controller.
    path: String,
}

/// POST /database/snapshot
pub(crate) async fn snapshot(call: Call) -> Result<Data<DatabaseSnapshotDetails>> {
    let maintenance = call.state.upkeep.maintenance.clone();
    let made = tokio::task::spawn_blocking(move || maintenance.snapshot()).await;
    let path =
        made.unwrap_or_else(|e| Err(Error::Internal(format!("cannot take a snapshot: {e}"))))?;
    Ok(Data(DatabaseSnapshotDetails {
        path: path.display().to_string(),
    }))
}

async fn check(call: Call) -> Result<Accepted> {
    call.state
        .upkeep
        .maintenance
        .begin(Work::Check)
        .map(|()| Accepted)
}

async fn fix(call: Call) -> Result<Accepted> {
    call.state
        .upkeep
        .maintenance
        .begin(Work::Repair)
        .map(|()| Accepted)
}

/// A run of the integrity check.
#[derive(Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct DataIntegrityCheckDetails {
    in_progress: bool,
    /// Whether it repairs what it finds.
    fixing_errors: bool,
    start_time: Option<Timestamp>,
    end_time: Option<Timestamp>,
    /// Why it ended early.
    error: Option<String>,
    /// Whether there are more results than listed.
    too_many_errors: bool,
    /// Null if no problem was found.
    results: Option<Vec<DataIntegrityCheckDetail>>,
    /// The number of rows checked.
    rows_checked: u64,
    /// The total number of rows.
    rows_total: u64,
}

/// A problem in the data file, or a repaired one.
#[derive(Serialize, JsonSchema)]
struct DataIntegrityCheckDetail {
    description: String,
    fixed: bool,
}

/// The answer with the results. It has a total number, but no pages.
pub(crate) struct Results(Envelope<DataIntegrityCheckDetails>);

impl Answer for Results {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        let schema = schemas.answer::<Envelope<DataIntegrityCheckDetails>>();
        operation.answer = Some(AnswerShape {
            status: 200,
            content: vec![(JSON, Some(schema))],
            headers: &[],
        });
    }
    fn reply(self) -> Result<Reply> {
        Reply::json(200, &self.0)
    }
}

async fn results(call: Call) -> Result<Results> {
    let data = call
        .state
        .upkeep
        .maintenance
        .state()
        .map(DataIntegrityCheckDetails::of)
        .unwrap_or_default();
    let count = data.results.as_ref().map_or(0, Vec::len);
    let pagination = Pagination {
        limit: -1,
        offset: 0,
        total_count: count as i64,
    };
    Ok(Results(Envelope {
        data,
        meta: Meta::of_list(pagination, None),
    }))
}

impl DataIntegrityCheckDetails {
    fn of(state: State) -> Self {
        let State {
            work,
            started_at,
            end,
            progress: (rows_checked, rows_total),
        } = state;
        let in_progress = end.is_none();
        let (end_time, result) = end.unzip();
        let (report, error) = match result {
            Some(Ok(report)) => (report, None),
            Some(Err(error)) => (Report::default(), Some(error.to_string())),
            None => (Report::default(), None),
        };
        let found = report
            .findings
            .into_iter()
            .map(|found| DataIntegrityCheckDetail {
                description: found.description,
                fixed: found.fixed,
            });
        let found: Vec<DataIntegrityCheckDetail> = found.collect();
        Self {
            in_progress,
            fixing_errors: work == Work::Repair,
            start_time: Some(started_at),
            end_time,
            error,
            too_many_errors: report.more,
            results: (!found.is_empty()).then_some(found),
            rows_checked,
            rows_total,
        }
    }
}
