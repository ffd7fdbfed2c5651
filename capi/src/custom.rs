//! Operations that a function of C carries out at the target.
//!
//! The library's operator says what goes back by pushing it; C's is told how many bytes the
//! origin asked for, which therefore travel before the operand.

use crate::abi::rankway_code;
use crate::error::Fail;
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use transport::rma::Custom;

/// Bytes before an operand.
pub(crate) const ASKED: usize = 4;
/// More is nobody's result: the target looks at as much of its memory at most.
const MOST: usize = 1 << 24;

/// "C-unwind" as [`crate::am::Function`].
pub(crate) type Function = unsafe extern "C-unwind" fn(
    u64,
    *mut c_void,
    usize,
    *const c_void,
    usize,
    *mut c_void,
    usize,
) -> c_int;

/// The function of this process.
static OPERATOR: OnceLock<Function> = OnceLock::new();

/// A custom operation on memory of a rank.
pub(crate) struct CustomOp<'a> {
    pub(crate) code: u64,
    pub(crate) operand: &'a [u8],
    pub(crate) result: *mut u8,
    pub(crate) len: usize,
    pub(crate) rank: u32,
    pub(crate) disp: usize,
    pub(crate) span: usize,
}

impl CustomOp<'_> {
    /// The bytes that are asked for, then the operand; neither is to be more than `limit`.
    pub(crate) fn body(&self, limit: usize) -> Result<Vec<u8>, Fail> {
        let (operand, result) = (self.operand.len(), self.len);
        if operand.max(result) > limit {
            let why = format!(
                "a custom operation of {operand} bytes of operand and {result} of result: at most \
                 {limit} of either go at a time"
            );
            return Err(Fail::new(rankway_code::RANKWAY_ERR_ARG, why));
        }
        Ok([&(result as u32).to_le_bytes()[..], self.operand].concat())
    }
}

/// Makes a function this process's operator; it stays.
pub(crate) fn set(function: Function) -> Result<(), Fail> {
    let same = |set: &Function| *set as usize == function as usize;
    if OPERATOR.set(function).is_err() && !OPERATOR.get().is_some_and(same) {
        let why = "this process has registered another operator; it stays until the process ends";
        return Err(Fail::new(rankway_code::RANKWAY_ERR_ARG, why));
    }
    Ok(())
}

/// Calls the function.
///
/// # Safety
/// As [`transport::rma::Operator`].
pub(crate) unsafe fn operator(custom: &Custom<'_>, result: &mut Vec<u8>) -> bool {
    let (Some(function), Some((asked, operand))) =
        (OPERATOR.get(), custom.operand.split_first_chunk::<ASKED>())
    else {
        return false;
    };
    let asked = u32::from_le_bytes(*asked) as usize;
    if asked > MOST {
        return false;
    }
    result.resize(asked, 0);
    // SAFETY: [CALLBACK]; the memory is the caller's, operand and result live until it returns.
    let answer = unsafe {
        function(
            custom.code,
            custom.at.cast(),
            custom.span,
            operand.as_ptr().cast(),
            operand.len(),
            result.as_mut_ptr().cast(),
            asked,
        )
    };
    answer == 0
}
