//! What may stand in a route table: an async function of a call and up to four arguments.

use std::{future::Future, pin::Pin};

use super::{
    answer::{Answer, Reply},
    body::Incoming,
    call::Call,
    extractor::Extractor,
    openapi::operation::{Operation, Schemas},
};
use crate::error::Result;

/// An answer to come. Not `Send`: a request stays on the thread that read it.
pub type Pending = Pin<Box<dyn Future<Output = Result<Reply>>>>;

/// A function of a route table. `Args` only tells the arities apart.
pub trait Handler<Args>: Clone + Send + Sync + 'static {
    /// What its argument and answer types say of the operation.
    ///
    /// # Errors
    /// A schema of ours is none, which is a defect.
    fn describe(operation: &mut Operation, schemas: &mut Schemas) -> Result<()>;

    /// Takes the arguments. Nothing else is done before what it answers is awaited: until then nobody has looked at permission.
    ///
    /// # Errors
    /// The request breaks what the arguments describe.
    fn start(&self, call: Call, incoming: &mut Incoming<'_>) -> Result<Pending>;
}

macro_rules! action {
    ($($argument:ident),*) => {
        impl<F, Fut, R, $($argument),*> Handler<($($argument,)*)> for F
        where
            F: Fn(Call, $($argument),*) -> Fut + Clone + Send + Sync + 'static,
            Fut: Future<Output = Result<R>> + 'static,
            R: Answer,
            $($argument: Extractor),*
        {
            fn describe(operation: &mut Operation, schemas: &mut Schemas) -> Result<()> {
                $($argument::describe(operation)?;)*
                R::describe(operation, schemas);
                Ok(())
            }
            #[allow(non_snake_case, unused_variables)]
            fn start(&self, call: Call, incoming: &mut Incoming<'_>) -> Result<Pending> {
                $(let $argument = $argument::take(incoming)?;)*
                let function = self.clone();
                Ok(Box::pin(async move { function(call, $($argument),*).await?.reply() }))
            }
        }
    };
}
action!();
action!(A);
action!(A, B);
action!(A, B, C);
action!(A, B, C, D);
