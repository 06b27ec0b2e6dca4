//! What administrators do with the file as a whole: copy it, check it, have it mended.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    clock::Timestamp,
    error::{Error, Result},
    http::{
        answer::{Answer, Begun, Reply, Shown},
        call::Call,
        envelope::{Envelope, Meta, Pagination},
        openapi::operation::{AnswerShape, JSON, Operation, Schemas},
        permission::Permission::Admin,
        route::Routes,
    },
    maintenance::Work,
};

/// The rows.
pub fn routes(routes: Routes) -> Routes {
    routes
        .post("/database/snapshot", Admin, snapshot)
        .patient()
        .summary("Copies the data file to one beside it, once a minute at most.")
        .post("/database/check-data-integrity", Admin, check)
        .summary("Begins to check the data file; what it finds is told by data-integrity-results.")
        .post("/database/fix-data-integrity", Admin, fix)
        .summary("Copies the data file, then checks it and mends what has one right answer.")
        .get("/database/data-integrity-results", Admin, results)
        .summary("What the last check found, or how far the one that is going on is.")
}

/// A snapshot that was made.
#[derive(Serialize, JsonSchema)]
pub struct DatabaseSnapshotDetails {
    /// Where it is, on the host of the controller.
    path: String,
}

/// POST /database/snapshot
pub async fn snapshot(call: Call) -> Result<Shown<DatabaseSnapshotDetails>> {
    let maintenance = call.maintenance.clone();
    let made = tokio::task::spawn_blocking(move || maintenance.snapshot()).await;
    let path = made.unwrap_or_else(|e| Err(Error::Internal(format!("a snapshot: {e}"))))?;
    Ok(Shown(DatabaseSnapshotDetails { path: path.display().to_string() }))
}

async fn check(call: Call) -> Result<Begun> {
    call.maintenance.begin(Work::Check).map(|()| Begun)
}

async fn fix(call: Call) -> Result<Begun> {
    call.maintenance.begin(Work::Repair).map(|()| Begun)
}

/// A run that checks the data file.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct DataIntegrityCheckDetails {
    in_progress: bool,
    /// Whether it mends what it finds.
    fixing_errors: bool,
    start_time: Option<Timestamp>,
    end_time: Option<Timestamp>,
    /// Why it ended before its time.
    error: Option<String>,
    /// There are more results than are told.
    too_many_errors: bool,
    /// Nothing if there is nothing wrong.
    results: Option<Vec<DataIntegrityCheckDetail>>,
    /// How many rows it has looked at.
    rows_checked: u64,
    /// How many rows there are.
    rows_total: u64,
}

/// Something that is wrong in the data file, or was.
#[derive(Serialize, JsonSchema)]
struct DataIntegrityCheckDetail {
    description: String,
    fixed: bool,
}

/// The answer with the results. It says how many there are, though there are no pages.
pub struct Results(Envelope<DataIntegrityCheckDetails>);

impl Answer for Results {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        let schema = schemas.answer::<Envelope<DataIntegrityCheckDetails>>();
        operation.answer = Some(AnswerShape { status: 200, content: vec![(JSON, Some(schema))], headers: &[] });
    }
    fn reply(self) -> Result<Reply> {
        Reply::json(200, &self.0)
    }
}

async fn results(call: Call) -> Result<Results> {
    let state = call.maintenance.state();
    let in_progress = state.is_running();
    let found = state.findings.into_iter().map(|found| DataIntegrityCheckDetail { description: found.description, fixed: found.fixed });
    let found: Vec<DataIntegrityCheckDetail> = found.collect();
    let pagination = Pagination { limit: -1, offset: 0, total_count: found.len() as i64 };
    let data = DataIntegrityCheckDetails {
        in_progress,
        fixing_errors: state.work == Some(Work::Repair),
        start_time: state.started_at,
        end_time: state.ended_at,
        error: state.error,
        too_many_errors: state.more,
        results: (!found.is_empty()).then_some(found),
        rows_checked: state.progress.0,
        rows_total: state.progress.1,
    };
    Ok(Results(Envelope { data, meta: Meta::of_list(pagination, None) }))
}
